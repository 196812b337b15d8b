/** Light, dark, or as the system says. */
export type Theme = "system" | "light" | "dark";

const SAVED = "ekiden.theme";

export function savedTheme(): Theme {
  const saved = localStorage.getItem(SAVED);
  return saved === "light" || saved === "dark" ? saved : "system";
}

export function applyTheme(theme: Theme): void {
  localStorage.setItem(SAVED, theme);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
