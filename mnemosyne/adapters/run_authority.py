"""A certificate authority for one run. It is restricted to one host and signs one certificate; then its key is gone."""

import os
import ssl
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

from mnemosyne.errors import BadOption

DAYS = 30
"""How long the certificates are valid; a client may run for days."""


def open_authority(host: str, now: int) -> tuple[str, ssl.SSLContext]:
    """The authority's certificate as PEM, and a server's context with a certificate for ``host``. Both keys exist in
    this process's memory only. ``now`` is in µs of UTC.

    Raises BadOption without the package ``cryptography``.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    except ImportError:
        raise BadOption("--door needs the package cryptography: install mnemosyne-proxy[door].") from None
    today = datetime.fromtimestamp(now / 1_000_000, UTC)
    signing, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer, subject = (
        x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, f"Mnemosyne, {what}")])
        for what in ("authority of one run", "door of one run")
    )
    known_as = x509.SubjectKeyIdentifier.from_public_key(signing.public_key())

    def begin(named: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(issuer, named, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(today - timedelta(days=1)).not_valid_after(today + timedelta(days=DAYS))
        constraints = x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None)
        return builder.add_extension(constraints, critical=True)

    usage = x509.KeyUsage(False, False, False, False, False, True, False, False, False)  # to sign certificates
    authority = (
        begin(issuer, signing, is_authority=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.NameConstraints([x509.DNSName(host)], None), critical=True)
        .add_extension(known_as, critical=False)
        .sign(signing, hashes.SHA256())
    )
    certificate = (
        begin(subject, own, is_authority=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known_as), critical=False)
        .sign(signing, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    key = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _load(context, certificate.public_bytes(Encoding.PEM), key)
    return authority.public_bytes(Encoding.PEM).decode(), context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load both through pipes: the context reads only files, and a key must not be in one."""
    with ExitStack() as stack:
        paths = []
        for text in (certificate, key):
            reading, writing = os.pipe()
            stack.callback(os.close, reading)
            os.write(writing, text)
            os.close(writing)
            paths.append(f"/dev/fd/{reading}")
        context.load_cert_chain(*paths)
