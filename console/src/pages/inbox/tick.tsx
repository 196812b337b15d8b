/** A box that is ticked or not. */
import type { ComponentChildren, VNode } from "preact";

interface Props {
  checked: boolean;
  set: (checked: boolean) => void;
  children: ComponentChildren;
  class?: string;
  required?: boolean;
}

export function Tick({ checked, set, children, class: name = "", required = false }: Props): VNode {
  return (
    <label class={name}>
      <input type="checkbox" required={required} checked={checked} onChange={(event) => set(event.currentTarget.checked)} /> {children}
    </label>
  );
}
