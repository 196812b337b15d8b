/** Requests to the server: JSON in, JSON out, and errors that say what to do. */

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly retryAfterS: number | null = null,
  ) {
    super(message);
  }
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export interface Me {
  name: string;
  tenant: string;
  scopes: string[];
  local: boolean;
  csrf_token: string | null;
  version: string;
}

type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export interface Options {
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

const ROOT = "/api/v1";
const TIMEOUT_MS = 65_000;
const SAFE = new Set(["GET", "HEAD"]);

let csrfToken: string | null = null;
let whenLoggedOut: () => void = () => undefined;
let whenStranger: () => void = () => undefined;

/** Call `then` when the server does not know who calls any more. */
export function onLoggedOut(then: () => void): void {
  whenLoggedOut = then;
}

/** Call `then` when the browser calls as somebody else by now: another tab has logged in. */
export function onStranger(then: () => void): void {
  whenStranger = then;
}

/** The address of a path of the API, as links and streams need it. */
export function address(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    if (Array.isArray(value)) value.forEach((each) => params.append(name, each));
    else params.append(name, String(value));
  }
  const text = params.toString();
  return `${ROOT}${path}${text ? `?${text}` : ""}`;
}

async function send(method: string, path: string, options: Options): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
  if (!SAFE.has(method) && csrfToken) headers["X-CSRF-Token"] = csrfToken;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const late = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return await fetch(address(path, options.query), {
      method,
      headers,
      body: options.body === undefined ? null : JSON.stringify(options.body),
      signal: options.signal ? AbortSignal.any([options.signal, late]) : late,
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    const code = late.aborted ? "console.timeout" : "console.offline";
    throw new ApiError(0, code, code);
  }
}

async function refused(response: Response): Promise<ApiError> {
  const after = Number(response.headers.get("Retry-After")) || null;
  try {
    const problem = (await response.json()) as { code?: string; detail?: string };
    return new ApiError(response.status, problem.code ?? "", problem.detail ?? "", after);
  } catch {
    return new ApiError(response.status, "", `HTTP ${response.status}`, after);
  }
}

/** One request; `ApiError` for whatever is not 2xx. */
export async function call<T>(method: string, path: string, options: Options = {}): Promise<T> {
  const response = await send(method, path, options);
  if (response.ok) return (response.status === 204 ? undefined : await response.json()) as T;
  const error = await refused(response);
  if (error.status === 401 && path !== "/login") whenLoggedOut();
  // What was asked for is not asked again: whoever it is now must want it.
  if (error.code === "auth.csrf") whenStranger();
  throw error;
}

export const get = <T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> =>
  call<T>("GET", path, { query, signal });

export const post = <T>(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<T> =>
  call<T>("POST", path, { body, headers });

/** Part of a path, whatever it holds. */
export const part = (text: string): string => encodeURIComponent(text);

async function known(asked: Promise<Me>): Promise<Me> {
  const me = await asked;
  csrfToken = me.csrf_token;
  return me;
}

export const whoAmI = (): Promise<Me> => known(call<Me>("GET", "/me"));
export const logIn = (key: string): Promise<Me> => known(call<Me>("POST", "/login", { body: { key } }));

export async function logOut(): Promise<void> {
  await call("POST", "/logout");
  csrfToken = null;
}
