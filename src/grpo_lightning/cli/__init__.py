"""The command line: ``python -m grpo_lightning <command>``.

A command line becomes a run in small steps, one file each: :mod:`.arguments` reads the words, :mod:`.yaml_text` and
:mod:`.merge` make one mapping of files and words, :mod:`.schema` reads the type hints of what is configured,
:mod:`.resolve` turns every short name into a full path, :mod:`.checks` finds every wrong value, and only then does
LightningCLI (:mod:`.lightning_cli`) see the configuration. To add a command, implement the hook
``grpo_register_commands``; to add a setting of runs, add a field in :mod:`.run_settings`.
"""
