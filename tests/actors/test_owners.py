"""Proof of being the owner of memory."""

from mnemosyne.actors.owners import MemoryClient, MemoryOwners
from mnemosyne.memory_key import OWNER_HEADER, MemoryKey

KEY = MemoryKey(b"key")
SHOWN = (("x-api-key", "k"),)
FINGERPRINT = KEY.fingerprint("k")


def test_token_proves_ownership_for_its_own_request_only() -> None:
    owners = MemoryOwners(KEY)
    assert owners.find_client((*SHOWN, (OWNER_HEADER, KEY.token)), None) == MemoryClient(True, FINGERPRINT)
    assert owners.find_client(SHOWN, None) == MemoryClient(False, FINGERPRINT)
    assert owners.find_client((), "s") == MemoryClient(False, None)


def test_presented_session_proves_ownership_once() -> None:
    owners = MemoryOwners(KEY)
    owners.present("s")
    assert not owners.find_client(SHOWN, "other").is_owner
    assert not owners.find_client(SHOWN, None).is_owner
    assert owners.find_client(SHOWN, "s").is_owner
    assert not owners.find_client(SHOWN, "s").is_owner
