/** Where one reads: at the end as long as one is there, and where one was when earlier steps come. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const NEAR_PX = 40;

interface Reading {
  box: { current: HTMLDivElement | null };
  content: { current: HTMLDivElement | null };
  isAtEnd: boolean;
  toEnd: () => void;
  /** Earlier steps are about to come before the first one. */
  keepPlace: () => void;
}

/** `first` is the number of the first step, `marked` the key of the one to look at, if any. */
export function useReading(first: number, marked: string): Reading {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const sticks = useRef(marked === "");
  const fromEnd = useRef<number | null>(null);
  const [isAtEnd, setAtEnd] = useState(true);
  const toEnd = useCallback(() => {
    sticks.current = true;
    box.current?.scrollTo(0, box.current.scrollHeight);
  }, []);
  useEffect(() => {
    const element = box.current!;
    const look = (): void => {
      const isNear = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX;
      sticks.current = isNear;
      setAtEnd(isNear);
    };
    // Who unfolds something wants to see it, and not the end.
    const unfolds = (): void => void (sticks.current = false);
    const sizes = new ResizeObserver(() => (sticks.current ? toEnd() : look()));
    sizes.observe(content.current!);
    sizes.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    element.addEventListener("toggle", unfolds, true);
    return () => {
      sizes.disconnect();
      element.removeEventListener("scroll", look);
      element.removeEventListener("toggle", unfolds, true);
    };
  }, []);
  useLayoutEffect(() => {
    const element = box.current!;
    if (fromEnd.current !== null) element.scrollTop = element.scrollHeight - fromEnd.current;
    fromEnd.current = null;
  }, [first]);
  useLayoutEffect(() => {
    const found = box.current!.querySelector<HTMLElement>(".marked");
    if (!found) return;
    sticks.current = false;
    found.scrollIntoView({ block: "center" });
    found.focus({ preventScroll: true });
  }, [marked]);
  const keepPlace = useCallback(() => {
    const element = box.current!;
    fromEnd.current = element.scrollHeight - element.scrollTop;
    sticks.current = false;
  }, []);
  return { box, content, isAtEnd, toEnd, keepPlace };
}
