"""``plugins check``: whether what a plugin brings keeps the contracts of its kinds, and how it is packaged."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from grpo_lightning.cli.check_packaging import packaging_warnings
from grpo_lightning.cli.scaffold_names import PREFIX
from grpo_lightning.errors import ConfigError, near_matches
from grpo_lightning.kinds import KINDS
from grpo_lightning.plugin_switches import normalised
from grpo_lightning.registry import Entry, Registry, import_path

BUILT_INS = "grpo-lightning"


@dataclass(frozen=True)
class Checked:
    """One component, and what came of its checks."""

    kind: str
    name: str
    path: str
    passed: dict[str, str]
    """By check: what it found to hold."""
    failed: dict[str, str]
    """By check: what is wrong."""

    def lines(self, verbose: bool) -> list[str]:
        """One line, one for each failed check and, if wanted, one for each that passed."""
        total = len(self.passed) + len(self.failed)
        count = f"{len(self.passed)} of {total} checks passed" if self.failed else f"{total} checks passed"
        lines = [f"  {self.kind} {self.name}: {count}"]
        if verbose:
            lines += [f"    passed {name}: {holds}" for name, holds in self.passed.items()]
        return lines + [f"    failed {name}: {message}" for name, message in self.failed.items()]


@dataclass
class Verdict:
    """What came of everything that a name means."""

    title: str
    components: list[Checked] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """What did not load."""
    warnings: list[str] = field(default_factory=list)
    """What is wrong with the packaging, which stops nothing."""

    @property
    def passed(self) -> bool:
        """Whether everything loaded and every check passed."""
        return not self.failures and not any(each.failed for each in self.components)

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {**asdict(self), "passed": self.passed}

    def page(self, *, verbose: bool = False) -> str:
        """For people: a line for each component, and one for each thing that is wrong."""
        lines = [self.title]
        for each in self.components:
            lines += each.lines(verbose)
        lines += [f"  failed: {failure}" for failure in self.failures]
        lines += [f"  warning: {warning}" for warning in self.warnings]
        return "\n".join(lines) + "\n"


def check_plugin(known: Registry, name: str, kind: str | None) -> Verdict:
    """Load and check what ``name`` means.

    Args:
        known: What is installed.
        name: A distribution or plugin (with or without ``grpo-lightning-``), a registered name, a class name, or the
            import path of a class.
        kind: Only components of this kind.

    Raises:
        ConfigError: If nothing has that name.
    """
    verdict = _of_distribution(known, name, kind) or _of_components(known, name, kind)
    if verdict is None and "." in name:
        verdict = Verdict(name)
        try:
            verdict.components.append(_checked(*_class_at(name, kind), path=name))
        except ConfigError:
            raise
        except Exception as error:  # a module may raise anything while it is imported
            raise ConfigError("name", name, f"cannot be imported ({type(error).__name__}: {error})",
                              "check the path and what is installed") from error  # fmt: skip
    if verdict is None:
        names = {entry.name for entry in known if kind in (None, entry.kind)} | set(_distributions(known))
        raise ConfigError("name", name, "is no plugin and no component", near_matches(name, names))
    return verdict


def _distributions(known: Registry) -> dict[str, str]:
    """Installed distributions with plugins that loaded or failed, by every name that a person may use."""
    owners = [(each.name, each.distribution) for each in known.source.loaded]
    # A name that only an environment variable gives belongs to nothing that is installed.
    broken = [each for each in known.failures if not each.distribution.startswith("the environment variable")]
    owners += [(each.plugin, each.distribution.partition(" ")[0]) for each in broken]
    found: dict[str, str] = {}
    for plugin, owner in owners:
        # Names of distributions go before names of plugins, which two may share.
        for name in (normalised(owner), normalised(owner).removeprefix(PREFIX)):
            found[name] = owner
        found.setdefault(normalised(plugin), owner)
    return found


def _of_distribution(known: Registry, name: str, kind: str | None) -> Verdict | None:
    owner = _distributions(known).get(normalised(name))
    if owner is None:
        return None
    entries = [each for each in known if each.distribution == owner and kind in (None, each.kind)]
    failures = [f"{each.cause}" for each in known.failures if each.distribution.partition(" ")[0] == owner]
    verdict = Verdict(_title(owner), [], failures)
    for entry in entries:
        _add(verdict, entry)
    if not entries and not failures:
        verdict.failures.append(f"it registers no component{f' of the kind {kind}' if kind else ''}")
    if owner != BUILT_INS:
        verdict.warnings += packaging_warnings(owner)
    return verdict


def _of_components(known: Registry, name: str, kind: str | None) -> Verdict | None:
    kinds = [kind] if kind else list(KINDS)
    entries = [entry for each in kinds if (entry := known.find(each, name)) is not None]
    if not entries:
        return None
    verdict = Verdict(" and ".join(dict.fromkeys(_title(entry.distribution) for entry in entries)))
    for entry in entries:
        _add(verdict, entry)
    return verdict


def _title(owner: str) -> str:
    try:
        return f"{owner} {distribution(owner).version}".strip()
    except (PackageNotFoundError, ValueError):
        return owner


def _add(verdict: Verdict, entry: Entry) -> None:
    try:
        component = entry.load()
    except Exception as error:  # see above
        message = f"cannot be imported ({type(error).__name__}: {' '.join(str(error).split())})"
        verdict.failures.append(f"{entry.kind} {entry.name}: {entry.path} {message}")
        return
    if not issubclass(component, KINDS[entry.kind].base_class()):
        verdict.failures.append(f"{entry.kind} {entry.name}: {entry.path} is no {KINDS[entry.kind].base}")
        return
    verdict.components.append(_checked(entry.kind, component, path=entry.path))


def _class_at(path: str, kind: str | None) -> tuple[str, type]:
    """Kind and class at an import path."""
    found = import_path(path)
    for each in [kind] if kind else KINDS:
        if isinstance(found, type) and issubclass(found, KINDS[each].base_class()):
            return each, found
    wanted = f"a subclass of {KINDS[kind].base}" if kind else "a subclass of the base class of a kind"
    raise ConfigError("name", path, "is no component", f"give {wanted}")


def _checked(kind: str, component: type, *, path: str) -> Checked:
    # Imported here: the kit imports torch and, for some kinds, transformers.
    from grpo_lightning.testing import Specimen, check_component

    outcomes = check_component(Specimen.of(component))
    passed = {each.check.name: each.check.summary for each in outcomes if each.passed}
    failed = {each.check.name: each.error or "" for each in outcomes if not each.passed}
    return Checked(kind, str(getattr(component, "name", component.__name__)), path, passed, failed)
