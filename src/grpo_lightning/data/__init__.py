"""Data on their way into a run: the data module, the loader of work items, encoded prompts."""
