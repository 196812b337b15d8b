/** What whoever looks at the page may do. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Me } from "./api/http";

export const WhoAmI = createContext<Me>({ name: "", tenant: "", scopes: [], local: false, csrf_token: null, version: "" });

export const useMe = (): Me => useContext(WhoAmI);

/** Whether one may read, run, answer or administer. */
export function useMay(scope: "read" | "run" | "answer" | "admin"): boolean {
  const { scopes } = useMe();
  return scopes.includes(scope) || scopes.includes("admin");
}
