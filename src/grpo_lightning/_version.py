"""The version of the package, kept where reading it imports nothing else."""

__version__ = "0.1.0"
