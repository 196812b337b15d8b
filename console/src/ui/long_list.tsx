/** A list of any length of which only what is seen is drawn. All rows have the same height. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props<T> {
  items: readonly T[];
  rowHeight: number;
  /** The height where there is little room for a row, if it is another. */
  narrowHeight?: number;
  label: string;
  row: (item: T, index: number) => ComponentChildren;
  keyOf: (item: T) => string;
  /** The index that must be seen, for example because it is chosen. */
  reveal?: number | undefined;
  class?: string;
}

const BEYOND = 8;
/** The styles of rows know this width, too. */
const NARROW_PX = 740;

export function LongList<T>({ items, rowHeight: wideHeight, narrowHeight = wideHeight, label, row, keyOf, reveal, class: name = "" }: Props<T>): VNode {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 800, isNarrow: false });
  const rowHeight = seen.isNarrow ? narrowHeight : wideHeight;
  useLayoutEffect(() => {
    const element = box.current!;
    const look = (): void => setSeen({ top: element.scrollTop, height: element.clientHeight, isNarrow: element.offsetWidth <= NARROW_PX });
    look();
    const sizes = new ResizeObserver(look);
    sizes.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  const revealed = reveal === undefined ? undefined : items[reveal];
  useEffect(() => {
    const element = box.current!;
    if (reveal === undefined || reveal < 0) return;
    const top = reveal * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    const most = top + rowHeight - element.clientHeight;
    if (most > element.scrollTop) element.scrollTop = most;
    // What moves because others came or went is not run after: somebody may be reading elsewhere.
  }, [revealed && keyOf(revealed), rowHeight]);
  const first = Math.max(0, Math.floor(seen.top / rowHeight) - BEYOND);
  const last = Math.min(items.length, Math.ceil((seen.top + seen.height) / rowHeight) + BEYOND);
  return (
    <div class={`long-list ${name}`} ref={box} tabIndex={0} role="group" aria-label={label}>
      <ul style={{ height: `${items.length * rowHeight}px` }}>
        {items.slice(first, last).map((item, at) => (
          <li
            key={keyOf(item)}
            style={{ top: `${(first + at) * rowHeight}px`, height: `${rowHeight}px` }}
            aria-setsize={items.length}
            aria-posinset={first + at + 1}
          >
            {row(item, first + at)}
          </li>
        ))}
      </ul>
    </div>
  );
}
