/**
 * What happens on the server, as it happens: one WebSocket for the whole page.
 *
 * Each subscription remembers how far it was told, and goes on from there after the connection was
 * lost, so that nothing is missed. What comes is given out in batches: a page is drawn once for
 * many events.
 */
import type { SessionEvent } from "./types";

export interface LiveMessage {
  type: string;
  id: string;
  data: Record<string, unknown>;
  event?: SessionEvent;
}

export interface Wanted {
  sessions?: string[];
  agents?: string[];
  types?: string[];
  inbox?: boolean;
}

export type LiveStatus = "connecting" | "live" | "lost";

interface Subscription {
  id: string;
  wanted: Wanted;
  after: string | null;
  batch: LiveMessage[];
  deliver: (batch: LiveMessage[]) => void;
  /** Something may have been missed: read everything anew. */
  reset: () => void;
}

const BATCH_MS = 100;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;
/** The server says every 15 seconds that it is there. */
const SILENCE_MS = 40_000;

class Live {
  private socket: WebSocket | null = null;
  private readonly subscriptions = new Map<string, Subscription>();
  private readonly watchers = new Set<(status: LiveStatus) => void>();
  private count = 0;
  private waitMs = FIRST_WAIT_MS;
  private timer = 0;
  private silence = 0;
  private batching = 0;
  private wanted = false;
  private whenRefused: () => void = () => undefined;
  status: LiveStatus = "connecting";

  /** Connect and stay connected; `refused` is called when a connection could not be made. */
  start(refused: () => void): void {
    this.whenRefused = refused;
    if (this.wanted) return;
    this.wanted = true;
    window.addEventListener("online", this.hurry);
    document.addEventListener("visibilitychange", this.hurry);
    this.connect();
  }

  stop(): void {
    this.wanted = false;
    window.clearTimeout(this.timer);
    window.removeEventListener("online", this.hurry);
    document.removeEventListener("visibilitychange", this.hurry);
    this.socket?.close();
    this.socket = null;
    for (const each of this.subscriptions.values()) each.after = null;
  }

  watch(then: (status: LiveStatus) => void): () => void {
    this.watchers.add(then);
    return () => this.watchers.delete(then);
  }

  /** Follow what is wanted; the answer ends it. */
  subscribe(wanted: Wanted, deliver: (batch: LiveMessage[]) => void, reset: () => void): () => void {
    const id = `s${++this.count}`;
    const subscription: Subscription = { id, wanted, after: null, batch: [], deliver, reset };
    this.subscriptions.set(id, subscription);
    this.ask(subscription);
    return () => {
      this.subscriptions.delete(id);
      this.send({ type: "unsubscribe", id });
    };
  }

  private readonly hurry = (): void => {
    if (document.visibilityState === "visible" && this.status === "lost") {
      window.clearTimeout(this.timer);
      this.connect();
    }
  };

  private connect(): void {
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/api/v1/events`, ["ekiden.v1"]);
    let opened = false;
    this.socket = socket;
    this.tell("connecting");
    socket.onopen = () => {
      opened = true;
      this.waitMs = FIRST_WAIT_MS;
      this.tell("live");
      for (const each of this.subscriptions.values()) this.ask(each);
    };
    socket.onmessage = (message) => {
      this.heard();
      this.take(JSON.parse(String(message.data)) as Record<string, unknown>);
    };
    socket.onclose = () => this.lost(socket, opened);
    this.heard();
  }

  private heard(): void {
    window.clearTimeout(this.silence);
    const socket = this.socket;
    this.silence = window.setTimeout(() => socket && this.lost(socket, true), SILENCE_MS);
  }

  private lost(socket: WebSocket, opened: boolean): void {
    if (socket !== this.socket || !this.wanted) return;
    socket.onclose = null;
    socket.close();
    this.socket = null;
    this.tell("lost");
    if (!opened) this.whenRefused();
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.wanted && this.connect(), this.waitMs * (0.75 + Math.random() / 2));
    this.waitMs = Math.min(this.waitMs * 2, LONGEST_WAIT_MS);
  }

  private tell(status: LiveStatus): void {
    this.status = status;
    for (const each of this.watchers) each(status);
  }

  private send(message: unknown): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private ask(subscription: Subscription): void {
    const after = subscription.after === null ? {} : { after: subscription.after };
    this.send({ type: "subscribe", id: subscription.id, ...subscription.wanted, ...after });
  }

  private take(message: Record<string, unknown>): void {
    const subscription = this.subscriptions.get(String(message.subscription ?? ""));
    if (!subscription) return;
    if (message.type === "subscribed") {
      // What happened between the page's last look and this moment is seen by another look; one that
      // failed while the connection was lost is made up for, too.
      subscription.after = String(message.after);
      subscription.reset();
    } else if (message.type === "error") {
      if (subscription.after === null) return;
      subscription.after = null;
      this.ask(subscription);
    } else if (typeof message.id === "string") {
      subscription.after = message.id;
      subscription.batch.push(message as unknown as LiveMessage);
      this.batching ||= window.setTimeout(() => this.giveOut(), BATCH_MS);
    }
  }

  private giveOut(): void {
    this.batching = 0;
    for (const each of [...this.subscriptions.values()]) {
      if (each.batch.length) each.deliver(each.batch.splice(0));
    }
  }
}

export const live = new Live();
