/** Who is not logged in gives a key here; the browser keeps a login in a cookie that no script reads. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { ApiError, logIn, type Me } from "./api/http";
import { LookAndLanguage } from "./settings";
import { t, type Language } from "./lib/words";
import { ErrorBox } from "./ui/basics";

interface Props {
  onDone: (me: Me) => void;
  speak: (language: Language) => void;
}

export function Login({ onDone, speak }: Props): VNode {
  const [key, setKey] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      onDone(await logIn(key.trim()));
    } catch (problem) {
      setError(problem instanceof ApiError ? problem : new ApiError(0, "", String(problem)));
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <h1>
        Ekiden <span lang="ja">駅伝</span>
      </h1>
      <form onSubmit={(event) => void submit(event)}>
        <label>
          {t("common.api_key")}
          <input
            type="password"
            name="key"
            autocomplete="current-password"
            spellcheck={false}
            required
            autofocus
            value={key}
            onInput={(event) => setKey(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary" disabled={isBusy}>
          {t("common.log_in")}
        </button>
        {error && <ErrorBox error={error} />}
        <p class="muted">{t("common.log_in_help")}</p>
      </form>
      <LookAndLanguage speak={speak} />
    </main>
  );
}
