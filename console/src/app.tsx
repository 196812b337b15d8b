/** Who looks, and what is shown: the frame around all pages. */
import type { VNode } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { ApiError, logOut, onLoggedOut, onStranger, whoAmI, type Me } from "./api/http";
import { live } from "./api/live";
import { Frame } from "./frame";
import { Login } from "./login";
import { loadWords, saveLanguage, type Language } from "./lib/words";
import { WhoAmI } from "./session";
import { ErrorBox, Loading } from "./ui/basics";
import { attempt, Toasts } from "./ui/toasts";

type State = { is: "asking" } | { is: "out" } | { is: "failed"; error: ApiError } | { is: "in"; me: Me };

/** Another tab may have logged in as somebody else while this one was not looked at. */
const ASK_AGAIN_MS = 30_000;

export function App(): VNode {
  const [state, setState] = useState<State>({ is: "asking" });
  const [, setLanguage] = useState<Language | null>(null);
  const ask = useCallback(async () => {
    try {
      const me = await whoAmI();
      // Nothing is drawn anew for one who is the same as before.
      setState((old) => (old.is === "in" && JSON.stringify(old.me) === JSON.stringify(me) ? old : { is: "in", me }));
    } catch (error) {
      const problem = error instanceof ApiError ? error : new ApiError(0, "", String(error));
      if (problem.status === 401) setState({ is: "out" });
      // Somebody who is in stays in while the server is away.
      else setState((old) => (old.is === "in" ? old : { is: "failed", error: problem }));
    }
  }, []);
  useEffect(() => {
    onLoggedOut(() => setState({ is: "out" }));
    onStranger(() => void ask());
    void ask();
  }, [ask]);
  const who = state.is === "in" ? JSON.stringify([state.me.tenant, state.me.name, state.me.scopes]) : null;
  useEffect(() => {
    if (who === null) return undefined;
    live.start(() => void ask());
    let asked = Date.now();
    const seen = (): void => {
      if (document.hidden || Date.now() - asked < ASK_AGAIN_MS) return;
      asked = Date.now();
      void ask();
    };
    document.addEventListener("visibilitychange", seen);
    return () => {
      document.removeEventListener("visibilitychange", seen);
      live.stop();
    };
  }, [who, ask]);
  const speak = useCallback(async (language: Language) => {
    if (!(await attempt(() => loadWords(language)))) return;
    saveLanguage(language);
    setLanguage(language);
  }, []);
  const leave = useCallback(async () => {
    if (await attempt(logOut)) setState({ is: "out" });
  }, []);
  return (
    <>
      {state.is === "asking" && <Loading />}
      {state.is === "failed" && <main class="login"><ErrorBox error={state.error} retry={() => void ask()} /></main>}
      {state.is === "out" && <Login onDone={(me) => setState({ is: "in", me })} speak={speak} />}
      {state.is === "in" && (
        <WhoAmI.Provider value={state.me}>
          <Frame key={state.me.tenant} speak={speak} leave={leave} />
        </WhoAmI.Provider>
      )}
      <Toasts />
    </>
  );
}
