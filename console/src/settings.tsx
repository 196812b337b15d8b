/** How the page looks and which language it speaks. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { applyTheme, savedTheme, type Theme } from "./lib/theme";
import { currentLanguage, t, type Language } from "./lib/words";

export function LookAndLanguage({ speak }: { speak: (language: Language) => void }): VNode {
  const [theme, setTheme] = useState(savedTheme);
  const choose = (wanted: Theme): void => {
    applyTheme(wanted);
    setTheme(wanted);
  };
  return (
    <div class="look">
      <label>
        <span class="hidden">{t("common.theme")}</span>
        <select value={theme} onChange={(event) => choose(event.currentTarget.value as Theme)}>
          <option value="system">{t("common.theme_system")}</option>
          <option value="light">{t("common.theme_light")}</option>
          <option value="dark">{t("common.theme_dark")}</option>
        </select>
      </label>
      <label>
        <span class="hidden">{t("common.language")}</span>
        <select value={currentLanguage()} onChange={(event) => speak(event.currentTarget.value as Language)}>
          <option value="en" lang="en">
            English
          </option>
          <option value="zh" lang="zh-Hans">
            中文
          </option>
        </select>
      </label>
    </div>
  );
}
