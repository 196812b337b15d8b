/** Who looks, and what is shown: the frame around all pages. */
import type { VNode } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { ApiError, logOut, onLoggedOut, whoAmI, type Me } from "./api/http";
import { live } from "./api/live";
import { Frame } from "./frame";
import { Login } from "./login";
import { loadWords, saveLanguage, type Language } from "./lib/words";
import { WhoAmI } from "./session";
import { ErrorBox, Loading } from "./ui/basics";
import { attempt, Toasts } from "./ui/toasts";

type State = { is: "asking" } | { is: "out" } | { is: "failed"; error: ApiError } | { is: "in"; me: Me };

export function App(): VNode {
  const [state, setState] = useState<State>({ is: "asking" });
  const [, setLanguage] = useState<Language | null>(null);
  const ask = useCallback(async () => {
    try {
      setState({ is: "in", me: await whoAmI() });
    } catch (error) {
      const problem = error instanceof ApiError ? error : new ApiError(0, "", String(error));
      if (problem.status === 401) setState({ is: "out" });
      // Somebody who is in stays in while the server is away.
      else setState((old) => (old.is === "in" ? old : { is: "failed", error: problem }));
    }
  }, []);
  useEffect(() => {
    onLoggedOut(() => setState({ is: "out" }));
    void ask();
  }, [ask]);
  const isIn = state.is === "in";
  useEffect(() => {
    if (!isIn) return undefined;
    live.start(() => void ask());
    return () => live.stop();
  }, [isIn, ask]);
  const speak = useCallback(async (language: Language) => {
    await attempt(() => loadWords(language));
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
          <Frame speak={speak} leave={leave} />
        </WhoAmI.Provider>
      )}
      <Toasts />
    </>
  );
}
