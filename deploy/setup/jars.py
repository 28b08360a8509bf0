"""Jars from Maven, fetched once by the Ivy inside pyspark into the project's own folder and checked against a lock file."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from deploy.setup.setup_folders import CACHE
from hq.java import Jar, brought_along, java_home
from streams.model.errors import Corrupt, RetryLater

Module = tuple[str, str, str]
"""Group, artifact, version."""
IVY = CACHE / "ivy"
SETTINGS = """\
<ivysettings><settings defaultResolver="public"/><resolvers>
<ibiblio name="public" m2compatible="true" usepoms="{with_dependencies}"/>
</resolvers></ivysettings>
"""
"""Where what a module asks for is not looked up, Ivy does not read its POM: fetching takes half as long."""
TRUSTED_BY_THIS_MACHINE = Path("/etc/ssl/certs/ca-certificates.crt")
TRUST_STORE_PASSWORD = "changeit"  # Java's own default: a trust store holds nothing secret


def make_ready(locked: Sequence[Jar], what: str) -> None:
    """Fetch the missing jars, so that every locked jar is in its place and whole.

    Raises Corrupt for bytes that are not the locked, RetryLater offline.
    """
    missing = [jar for jar in locked if not jar.is_whole()]
    if missing:
        _retrieve(((jar.group, jar.artifact, jar.version) for jar in missing), missing[0].folder, what, with_dependencies=False)
    for jar in missing:
        if not jar.is_whole():
            found = hashlib.sha256(jar.path.read_bytes()).hexdigest() if jar.path.exists() else "no file"
            shutil.rmtree(IVY, ignore_errors=True)
            raise Corrupt(f"{jar.path.name}: {found}, but {jar.sha256} is locked", hint="run it again; if it stays, distrust the source")


def write_lock(lock: Path, header: str, modules: Iterable[Module], what: str, taken: Callable[[str], bool] = lambda group: True) -> None:
    """Write the coordinates and checksums of `modules` and all that they ask for, as far as the group is `taken`."""
    folder = CACHE / "lock"
    shutil.rmtree(folder, ignore_errors=True)
    _retrieve(modules, folder, what, with_dependencies=True, pattern="[organisation]!=[artifact]!=[revision]!=.[ext]")
    jars = [jar for jar in _found(folder) if taken(jar.group)]
    lines = "".join(f"{jar.group}:{jar.artifact}:{jar.version} sha256:{jar.sha256}\n" for jar in jars)
    lock.write_text(header + lines)
    shutil.rmtree(folder)


def _found(folder: Path) -> Iterator[Jar]:
    for path in sorted(folder.iterdir()):
        group, artifact, revision, _ = path.name.split("!=")
        yield Jar(group, artifact, revision, hashlib.sha256(path.read_bytes()).hexdigest(), folder)


def _retrieve(
    modules: Iterable[Module], folder: Path, what: str, *, with_dependencies: bool, pattern: str = "[artifact]-[revision].[ext]"
) -> None:
    """Let Ivy put these modules' jars into `folder`."""
    IVY.mkdir(parents=True, exist_ok=True)
    wanted = IVY / "wanted.xml"
    wanted.write_text(_ivy_file(modules, with_dependencies))
    settings = IVY / "settings.xml"
    settings.write_text(SETTINGS.format(with_dependencies=str(with_dependencies).lower()))
    jars = next(Path(next(iter(_spec_folders("pyspark"))), "jars").glob("ivy-*.jar"))
    command = [
        *_java_command(), f"-Divy.default.ivy.user.dir={IVY}", "-cp", str(jars), "org.apache.ivy.Main",
        "-settings", str(settings), "-ivy", str(wanted), "-cache", str(IVY / "cache"),
        "-types", "jar", "bundle", "-retrieve", str(folder / pattern),
    ]  # fmt: skip
    if subprocess.run(command, check=False).returncode:
        raise RetryLater(f"Ivy could not fetch {what}", hint="see its words above: is the network there?")


def _ivy_file(modules: Iterable[Module], with_dependencies: bool) -> str:
    lines = (
        f'<dependency org="{group}" name="{name}" rev="{revision}" transitive="{str(with_dependencies).lower()}" conf="default->default"/>'
        for group, name, revision in modules
    )
    return (
        '<ivy-module version="2.0"><info organisation="landfall" module="jars"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _java_command() -> Sequence[str]:
    """Return the command of Java, which trusts what this machine trusts where that can be known.

    The Java brought along has a certificate store of its own.
    """
    home = java_home()
    java = str(home / "bin" / "java")
    if home != brought_along() or not TRUSTED_BY_THIS_MACHINE.exists():
        return (java,)
    store = IVY / "trusted.p12"
    store.write_bytes(_trust_store(TRUSTED_BY_THIS_MACHINE.read_bytes()))
    return (java, f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={TRUST_STORE_PASSWORD}")


def _trust_store(pem: bytes) -> bytes:
    """Return the same certificates in the form that Java reads."""
    certificates = [pkcs12.PKCS12Certificate(one, str(number).encode()) for number, one in enumerate(x509.load_pem_x509_certificates(pem))]
    return pkcs12.serialize_java_truststore(certificates, BestAvailableEncryption(TRUST_STORE_PASSWORD.encode()))


def _spec_folders(package: str) -> list[str]:
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return list(spec.submodule_search_locations)
