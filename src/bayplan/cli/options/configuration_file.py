"""The file of `--config`: a KubeSchedulerConfiguration, a configuration of Volcano,
or a ConfigMap that holds one of them.

A file may hold several documents, as `kustomize build` and `kubectl get -o yaml` print them; the one configuration
among them counts. None or several are an error that says where they stand. Imports of the rooms below stand inside the
functions: a `--help` must not wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayplan.cli.shared.output import warn

if TYPE_CHECKING:
    from bayplan.config.configuration import Configuration

KIND = "KubeSchedulerConfiguration"


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """A configuration and its position: `key` is that of the ConfigMap whose data holds it."""

    file: Path
    document: object
    key: str = ""

    @property
    def source(self) -> str:
        """For messages: the file, and the key in it."""
        return f'{self.file}: data["{self.key}"]' if self.key else str(self.file)

    def located(self, message: str) -> str:
        """A message about a field, with the place of the field where that is known."""
        from bayplan.kube.documents import located

        return f"{self.source}: {message}" if self.key else located(self.file, message)


def read_configuration(file: Path) -> ConfigurationFile:
    """Find the configuration in a file; raises `InvalidObject` if there is none or more than one."""
    from bayplan.kube.errors import InvalidObject, ObjectPath
    from bayplan.kube.files import read_all_documents

    documents = [each for document in read_all_documents(file) for each in _items(document)]
    found = [each for document in documents for each in _found_in(document, file)]
    if len(found) == 1:
        return found[0]
    if len(documents) == 1 and not _is_config_map(documents[0]):
        return ConfigurationFile(file, documents[0])  # the caller that decodes it reports the error
    at = ObjectPath(f"file {file}")
    if found:
        places = ", ".join(f'data["{each.key}"]' if each.key else f"a {KIND}" for each in found)
        raise InvalidObject(
            at, f"holds {len(found)} configurations: {places}; expected one: write it into a file of its own"
        )
    held = ", ".join(_in_words(each) for each in documents) or "nothing"
    raise InvalidObject(at, f"holds no {KIND}, by itself or in a ConfigMap; it holds {held}")


def configuration_in(file: Path | None) -> Configuration:
    """The configuration of a file, or the default one, with its remarks as warnings; raises `ConfigurationError`."""
    from bayplan.config.configuration import ConfigurationError, configuration_of
    from bayplan.extensions import misspelt_groups
    from bayplan.plugins.node_resource_topology_args import ArgumentError

    written = None if file is None else read_configuration(file)
    try:
        configuration = configuration_of({} if written is None else written.document)
    except (ConfigurationError, ArgumentError) as error:
        raise ConfigurationError(str(error) if written is None else written.located(str(error))) from None
    warn([f"{written.source}: {remark}" for remark in configuration.remarks] if written is not None else [])
    warn(list(misspelt_groups()))
    return configuration


def _items(document: object) -> Iterator[object]:
    items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
    yield from items if isinstance(items, list) else [document]


def _found_in(document: object, file: Path) -> Iterator[ConfigurationFile]:
    if not isinstance(document, dict):
        return
    if not _is_config_map(document):
        if _is_configuration(document):
            yield ConfigurationFile(file, document)
        return
    from bayplan.extensions import CONFIGURATION, compat, compat_names
    from bayplan.kube.documents import documents_in
    from bayplan.kube.files import decoded

    foreign = {compat(CONFIGURATION, name).CONFIG_MAP_KEY for name in compat_names(CONFIGURATION)}
    for key, text in (document.get("data") or {}).items():
        if key in foreign:
            yield ConfigurationFile(file, document)
        elif isinstance(text, str) and KIND in text:
            inside = Path(f'{file} data["{key}"]')
            written = [decoded(each, inside) for each in documents_in(text.encode(), inside)]
            yield from (ConfigurationFile(file, each, key) for each in written if _is_configuration(each))


def _is_config_map(document: object) -> bool:
    return isinstance(document, dict) and document.get("kind") == "ConfigMap"


def _is_configuration(document: object) -> bool:
    return isinstance(document, dict) and (document.get("kind") == KIND or "tiers" in document)


def _in_words(document: Any) -> str:
    """`ConfigMap kube-system/other (data: a, b)`."""
    if not isinstance(document, dict):
        return "a document that is no object"
    metadata = document.get("metadata") or {}
    name = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
    keys = f" (data: {', '.join(document.get('data') or {}) or 'none'})" if _is_config_map(document) else ""
    return f"{document.get('kind') or 'an object without kind'} {name}".rstrip() + keys
