"""How to reach an API server and convince it: from a kubeconfig, or from inside the cluster.

`find_access` looks where kubectl looks: the file that is given, $KUBECONFIG (a list), ~/.kube/config; failing these,
the service account of the pod that this runs in. Out goes an `Access` for `kube/client/client.py`. Whatever is missing
or makes no sense is an `AccessError` that names file, context and field before anything is sent. Merging files is in
`kube/client/kubeconfig.py`, what is shown to the server in `kube/client/credentials.py` and
`kube/client/exec_credentials.py`.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bayplan.kube.client.credentials import (
    AccessError,
    CertificateFiles,
    ClientCertificate,
    Credential,
    Credentials,
    Fixed,
    TokenFile,
    Trust,
    basic,
)
from bayplan.kube.client.exec_credentials import ExecPlugin
from bayplan.kube.client.kubeconfig import Chosen, Cluster, KubeconfigEntry, User, choose, kubeconfig_files
from bayplan.kube.client.proxies import proxy_from_environment

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """Everything that a client needs to know about its API server."""

    server: str  # https://10.0.0.1:6443, without a slash at its end
    credentials: Credentials
    namespace: str = "default"
    tls_server_name: str | None = None
    proxy: str | None = None
    headers: tuple[tuple[str, str], ...] = ()  # sent with every request: the user to impersonate
    source: str = ""  # where all this stands, for messages


def find_access(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """Find out how to reach the API server; raises AccessError."""
    files = kubeconfig_files(kubeconfig, environment)
    if files:
        return _from_kubeconfig(choose(files, context), environment)
    if context is not None:
        raise AccessError(f'context "{context}": there is no kubeconfig ($KUBECONFIG, ~/.kube/config) to look it up in')
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return _from_inside_the_cluster(environment, service_account)
    if listed := environment.get("KUBECONFIG"):
        raise AccessError(f"no cluster: $KUBECONFIG names {listed}, which does not exist")
    raise AccessError(
        "no cluster: there is no kubeconfig ($KUBECONFIG, ~/.kube/config), and bayplan does not run in a pod"
    )


def _from_inside_the_cluster(environment: Mapping[str, str], folder: Path) -> Access:
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    try:
        trust = Trust((folder / "ca.crt").read_text())
        tls = trust.context()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise AccessError(f"service account {folder / 'ca.crt'}: cannot be used: {error}") from None
    credentials = TokenFile(folder / "token", tls, authorities=folder / "ca.crt")
    credentials.read_now()
    namespace = folder / "namespace"
    return Access(
        server,
        credentials,
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        proxy=proxy_from_environment(server, environment),
        source=f"service account {folder}",
    )


def _from_kubeconfig(chosen: Chosen, environment: Mapping[str, str]) -> Access:
    cluster, user = chosen.cluster, chosen.user
    server = _server(cluster)
    return Access(
        server,
        _credentials(cluster, user, _trust(cluster), encrypted=server.startswith("https:"), environment=environment),
        namespace=chosen.namespace,
        tls_server_name=cluster.value.tls_server_name or None,
        proxy=_proxy(cluster) or proxy_from_environment(server, environment),
        headers=_impersonation(user),
        source=f'context "{chosen.name}" of {cluster.file}',
    )


def _server(cluster: KubeconfigEntry[Cluster]) -> str:
    server = cluster.value.server.rstrip("/")
    if not server:
        raise cluster.error("server", "is not set")
    try:
        parts = urlsplit(server)
        valid = parts.scheme in ("https", "http") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        valid = False
    if not valid:
        raise cluster.error("server", f'"{server}" is no address; expected such as https://10.0.0.1:6443')
    return server


def _proxy(cluster: KubeconfigEntry[Cluster]) -> str | None:
    proxy = cluster.value.proxy_url
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise cluster.error("proxy-url", f'"{proxy}" is not supported; expected http://HOST:PORT or https://HOST:PORT')
    return proxy or None


def _trust(cluster: KubeconfigEntry[Cluster]) -> Trust:
    stated = cluster.value
    authorities = _data_or_file(
        cluster,
        "certificate-authority",
        data=stated.certificate_authority_data,
        file=stated.certificate_authority,
    )
    if stated.insecure_skip_tls_verify:
        if authorities is not None:
            raise cluster.error("insecure-skip-tls-verify", "cannot be true beside a certificate-authority")
        return Trust(verify=False)
    if authorities is None:
        return Trust()
    trust = Trust(authorities.decode(errors="replace"))
    try:
        trust.context()
    except ssl.SSLError as error:
        raise cluster.error("certificate-authority", f"cannot be used: {error}") from None
    return trust


def _credentials(
    cluster: KubeconfigEntry[Cluster],
    user: KubeconfigEntry[User],
    trust: Trust,
    *,
    encrypted: bool,
    environment: Mapping[str, str],
) -> Credentials:
    stated = user.value
    if stated.auth_provider is not None:
        raise user.error(
            "auth-provider",
            (
                f'"{stated.auth_provider.name}" plug-ins are gone since Kubernetes 1.26; use an '
                "exec plug-in of your provider"
            ),
        )
    try:
        certificate = _certificate(user)
        tls = trust.context(certificate) if encrypted else None
    except ssl.SSLError as error:
        raise user.error("client-certificate", f"cannot be used with its key: {error}") from None
    authorization = None
    if stated.token:
        authorization = f"Bearer {stated.token}"
    elif stated.username:
        authorization = basic(stated.username, stated.password)
    if stated.token_file:
        credentials = TokenFile(user.path(stated.token_file), tls, fallback=stated.token or None)
        credentials.read_now()
        return credentials
    if stated.exec is not None and authorization is None:
        return ExecPlugin(user, cluster, trust if encrypted else None, certificate, environment)
    if certificate is not None and tls is not None and stated.client_certificate:
        return CertificateFiles(trust, lambda: _certificate(user) or certificate, Credential(authorization, tls))
    return Fixed(Credential(authorization, tls))


def _certificate(user: KubeconfigEntry[User]) -> ClientCertificate | None:
    stated = user.value
    certificate = _data_or_file(
        user, "client-certificate", data=stated.client_certificate_data, file=stated.client_certificate
    )
    key = _data_or_file(user, "client-key", data=stated.client_key_data, file=stated.client_key)
    if certificate is None and key is None:
        return None
    if certificate is None:
        raise user.error("client-certificate", "is not set, but client-key is")
    if key is None:
        raise user.error("client-key", "is not set, but client-certificate is")
    return ClientCertificate(certificate, key)


def _data_or_file(
    entry: KubeconfigEntry[Cluster] | KubeconfigEntry[User], field: str, *, data: str, file: str
) -> bytes | None:
    """PEM from `FIELD-data`, which wins, or from the file that FIELD names."""
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise entry.error(f"{field}-data", f"is not base64: {error}") from None
    if file:
        try:
            return entry.path(file).read_bytes()
        except OSError as error:
            raise entry.error(field, f"{entry.path(file)} cannot be read: {error.strerror}") from None
    return None


def _impersonation(user: KubeconfigEntry[User]) -> tuple[tuple[str, str], ...]:
    stated = user.value
    if not stated.impersonate:
        return ()
    headers = [("Impersonate-User", stated.impersonate)]
    if stated.impersonate_uid:
        headers.append(("Impersonate-Uid", stated.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in stated.impersonate_groups or []]
    extra = stated.impersonate_extra or {}
    headers += [(f"Impersonate-Extra-{name}", value) for name, values in extra.items() for value in values]
    return tuple(headers)
