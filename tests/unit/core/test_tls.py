"""Certificates of encrypted connections."""

from __future__ import annotations

import ssl

from ekiden.core.checks.addresses import tls_context


def test_certificates_are_read_once_and_only_for_encrypted_connections() -> None:
    reads: list[ssl.SSLContext] = []

    def load() -> ssl.SSLContext:
        reads.append(ssl.create_default_context())
        return reads[-1]

    assert tls_context("http://agents.example", load).cert_store_stats()["x509_ca"] == 0
    assert not reads
    assert tls_context("https://agents.example", load) is tls_context("HTTPS://b.example", load)
    assert len(reads) == 1
