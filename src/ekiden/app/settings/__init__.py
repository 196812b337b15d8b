"""Settings: `settings.json` of the user and of the project, environment and call, merged."""

from ekiden.app.settings.files import SettingsFiles, Where, settings_files
from ekiden.app.settings.keys import SETTINGS, Setting
from ekiden.app.settings.loaded import Entry, LoadedSettings, Origin
from ekiden.app.settings.loading import load_settings
from ekiden.app.settings.model import AgentsSettings, ChatSettings, LocalSettings, Settings
from ekiden.app.settings.problems import SettingsProblem

__all__ = [
    "SETTINGS",
    "AgentsSettings",
    "ChatSettings",
    "Entry",
    "LoadedSettings",
    "LocalSettings",
    "Origin",
    "Setting",
    "Settings",
    "SettingsFiles",
    "SettingsProblem",
    "Where",
    "load_settings",
    "settings_files",
]
