import { render } from "preact";
import { App } from "./app";
import { applyTheme, savedTheme } from "./lib/theme";
import { loadWords, wantedLanguage } from "./lib/words";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/inbox.css";
import "./styles/sessions.css";
import "./styles/session.css";
import "./styles/graph.css";
import "./styles/trace.css";
import "./styles/agents.css";
import "./styles/plans.css";
import "./styles/audit.css";

applyTheme(savedTheme());
const root = document.getElementById("app")!;
loadWords(wantedLanguage()).then(
  () => render(<App />, root),
  () => {
    root.textContent = "The server does not answer. Reload the page to try again.";
  },
);
