/** Places beside each other, as links: each has its own address. */
import type { VNode } from "preact";

export interface Tab {
  name: string;
  href: string;
  label: string;
}

export function Tabs({ tabs, current, label }: { tabs: Tab[]; current: string; label: string }): VNode {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <a key={tab.name} href={tab.href} aria-current={tab.name === current ? "page" : undefined}>
          {tab.label}
        </a>
      ))}
    </nav>
  );
}
