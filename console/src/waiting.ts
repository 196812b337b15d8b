/** How many questions wait for people, wherever one is on the page. */
import type { Page } from "./api/http";
import type { InboxItem } from "./api/types";
import { useLive, useResource, useThrottled } from "./lib/resource";

export function useWaiting(): number {
  const open = useResource<Page<InboxItem>>("/inbox", { limit: 100 });
  const later = useThrottled(open.reload, 500);
  useLive({ inbox: true }, later, later);
  return open.data?.items.filter((item) => !item.notice).length ?? 0;
}
