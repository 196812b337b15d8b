"""Settings, merged from `settings.json` of the user and of the project, the environment, and
arguments of the call."""

from ekiden.project.settings.changes import (
    SettingChange as SettingChange,
    set_setting as set_setting,
    unset_setting as unset_setting,
)
from ekiden.project.settings.files import (
    SettingsProblem as SettingsProblem,
    Where as Where,
    settings_files as settings_files,
)
from ekiden.project.settings.keys import (
    SETTINGS as SETTINGS,
    Setting as Setting,
    redacted as redacted,
    settings_schema as settings_schema,
)
from ekiden.project.settings.model import (
    AgentsSettings as AgentsSettings,
    LocalModelSettings as LocalModelSettings,
    Settings as Settings,
)
from ekiden.project.settings.sources import (
    LoadedSettings as LoadedSettings,
    SettingEntry as SettingEntry,
    SettingOrigin as SettingOrigin,
    agent_names_check as agent_names_check,
    check_default_agent as check_default_agent,
    load_settings as load_settings,
    lookup_value as lookup_value,
)
