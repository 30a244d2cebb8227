"""The catalogue on both databases."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.plugins.state_backend import Execute, SqlDatabase
from streamling.serve.catalogue import Actor, Catalogue, open_database
from streamling.serve.errors import Refused
from streamling.serve.model import PipelineBody, PipelineKey

ORDERS = PipelineKey("default", "orders")
ALICE = Actor("alice")
FOLDER = Actor("folder", "dir")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.services)])
def open_again(request, tmp_path):
    """Opens the database; it can be opened again after it was closed."""
    if request.param == "sqlite":
        state = {"sqlite": {"database_path": tmp_path / "state.db"}}
    else:
        state = {"backend_type": "Postgres", "postgres": request.getfixturevalue("postgres_state")}
    return lambda: open_database(AppConfig(state_backend=state))


@pytest.fixture
def database(open_again):
    with closing(open_again()) as opened:
        yield opened


@pytest.fixture
def catalogue(database: SqlDatabase) -> Catalogue:
    return Catalogue(database)


def spec(definition: str = "sources: {}", **fields) -> PipelineBody:
    return PipelineBody(definition=definition, **fields)


def refusal(call) -> str:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value.code


def test_everything_survives_a_restart(open_again):
    with closing(open_again()) as database:
        catalogue = Catalogue(database)
        created = catalogue.create(ORDERS, spec(config={"job_mode": True}, size="l", isolation="process"), ALICE)
        paused = catalogue.set_desired(ORDERS, "paused", ALICE)
    with closing(open_again()) as database:
        assert Catalogue(database).records() == {ORDERS: paused}
    assert paused.model_dump(exclude={"generation", "desired", "updated_at"}) == created.model_dump(
        exclude={"generation", "desired", "updated_at"}
    )


def test_one_server_at_a_time_uses_a_catalogue(database, open_again):
    with pytest.raises(StreamlingError, match="in use by"):
        open_again()


def test_every_change_counts_one_generation_and_changes_the_etag(catalogue):
    etags = [
        catalogue.create(ORDERS, spec(), ALICE).etag,
        catalogue.put(ORDERS, spec("sinks: {}"), ALICE).etag,
        catalogue.set_desired(ORDERS, "paused", ALICE).etag,
        catalogue.restart(ORDERS, ALICE).etag,
    ]
    assert len(set(etags)) == 4
    assert catalogue.get(ORDERS).generation == 4


def test_only_what_concerns_a_running_pipeline_replaces_it(catalogue):
    catalogue.create(ORDERS, spec(), ALICE)
    assert catalogue.set_desired(ORDERS, "paused", ALICE).revision == 1
    assert catalogue.put(ORDERS, spec(size="xl"), ALICE).revision == 2
    assert catalogue.restart(ORDERS, ALICE).revision == 3


def test_a_change_to_the_same_is_no_change(catalogue):
    before = catalogue.create(ORDERS, spec(), ALICE)
    assert catalogue.put(ORDERS, spec(), ALICE) == before
    assert catalogue.set_desired(ORDERS, "running", ALICE) == before
    assert [entry.action for entry in catalogue.audit.newest(10)] == ["create"]


def test_a_name_can_be_created_once(catalogue):
    catalogue.create(ORDERS, spec(), ALICE)
    assert refusal(lambda: catalogue.create(ORDERS, spec(), ALICE)) == "exists"
    assert refusal(lambda: catalogue.put(ORDERS, spec("other"), ALICE, only_create=True)) == "changed"


def test_a_change_of_an_old_version_is_refused(catalogue):
    old = catalogue.create(ORDERS, spec(), ALICE).etag
    new = catalogue.put(ORDERS, spec("a"), ALICE, etag=old).etag
    assert refusal(lambda: catalogue.put(ORDERS, spec("b"), ALICE, etag=old)) == "changed"
    assert refusal(lambda: catalogue.delete(ORDERS, "keep", ALICE, etag=old)) == "changed"
    assert catalogue.get(ORDERS).etag == new


def test_a_version_that_was_deleted_and_created_again_has_another_etag(catalogue):
    old = catalogue.create(ORDERS, spec(), ALICE).etag
    catalogue.delete(ORDERS, "keep", ALICE)
    catalogue.remove(ORDERS)
    assert catalogue.create(ORDERS, spec(), ALICE).etag != old


def test_of_many_clients_that_change_one_version_exactly_one_succeeds(catalogue):
    etag = catalogue.create(ORDERS, spec(), ALICE).etag
    outcomes: list[str] = []

    def change(number: int) -> None:
        try:
            outcomes.append(catalogue.put(ORDERS, spec(f"version {number}"), ALICE, etag=etag).definition)
        except Refused as refused:
            outcomes.append(refused.code)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (won,) = [outcome for outcome in outcomes if outcome != "changed"]
    assert len(outcomes) == 8
    assert catalogue.get(ORDERS).definition == won
    assert catalogue.get(ORDERS).generation == 2


def test_a_pipeline_that_is_being_deleted_cannot_be_changed(catalogue):
    catalogue.create(ORDERS, spec(), ALICE)
    catalogue.delete(ORDERS, "delete", ALICE)
    assert catalogue.get(ORDERS).deleting == "delete"
    for change in (
        lambda: catalogue.create(ORDERS, spec(), ALICE),
        lambda: catalogue.put(ORDERS, spec("a"), ALICE),
        lambda: catalogue.set_desired(ORDERS, "paused", ALICE),
        lambda: catalogue.restart(ORDERS, ALICE),
    ):
        assert refusal(change) == "deleting"
    catalogue.remove(ORDERS)
    assert refusal(lambda: catalogue.get(ORDERS)) == "not_found"


def test_a_pipeline_is_removed_only_after_its_deletion_was_requested(catalogue):
    catalogue.create(ORDERS, spec(), ALICE)
    catalogue.remove(ORDERS)
    assert ORDERS in catalogue.records()


def test_pipelines_of_a_folder_belong_to_their_files(catalogue):
    catalogue.put(ORDERS, spec(), FOLDER)
    for change in (
        lambda: catalogue.put(ORDERS, spec("a"), ALICE),
        lambda: catalogue.set_desired(ORDERS, "paused", ALICE),
        lambda: catalogue.delete(ORDERS, "keep", ALICE),
    ):
        assert refusal(change) == "managed"
    assert catalogue.restart(ORDERS, ALICE).revision == 2


def test_the_audit_log_says_who_changed_what(catalogue):
    catalogue.create(ORDERS, spec(), ALICE)
    catalogue.put(ORDERS, spec("a", size="s"), Actor("bob"))
    catalogue.audit.record("set secret", "alice", PipelineKey("", "password"))
    newest, changed, created = catalogue.audit.newest(10)
    assert (newest.actor, newest.action, newest.name) == ("alice", "set secret", "password")
    assert (changed.actor, changed.action, changed.generation, changed.detail) == ("bob", "put", 2, "definition, size")
    assert (created.action, created.namespace, created.name) == ("create", "default", "orders")
    assert [entry.action for entry in catalogue.audit.newest(1)] == ["set secret"]


def test_a_transaction_that_fails_changes_nothing(catalogue, database):
    before = catalogue.create(ORDERS, spec(), ALICE)
    with database.transaction() as execute:
        execute("DROP TABLE {audit}", ())  # its entry follows the record, in the same transaction
    with pytest.raises(StreamlingError, match=r"the catalogue in .* cannot be used"):
        catalogue.put(ORDERS, spec("a"), ALICE)
    assert catalogue.get(ORDERS) == before
    assert Catalogue(database).get(ORDERS) == before


class LosingAnswers:
    """A database whose answer to a commit gets lost."""

    def __init__(self, inner: SqlDatabase) -> None:
        self._inner = inner
        self.is_losing = self.is_unavailable = False
        self.check_writable = inner.check_writable

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        if self.is_unavailable:
            raise StreamlingError.transient("the connection was refused")
        with self._inner.reading() as execute:
            yield execute

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        with self._inner.transaction() as execute:
            yield execute
        if self.is_losing:
            self.is_losing = False
            raise StreamlingError.transient("the connection was lost")

    def close(self) -> None:
        self._inner.close()


def test_after_a_lost_answer_the_database_decides_what_is_true(database):
    losing = LosingAnswers(database)
    catalogue = Catalogue(losing)
    catalogue.create(ORDERS, spec(), ALICE)
    losing.is_losing = True
    with pytest.raises(StreamlingError, match="the connection was lost"):
        catalogue.put(ORDERS, spec("a"), ALICE)
    assert catalogue.get(ORDERS).definition == "a"


def test_while_the_database_is_unavailable_the_last_known_records_are_read(database):
    losing = LosingAnswers(database)
    catalogue = Catalogue(losing)
    before = catalogue.create(ORDERS, spec(), ALICE)
    losing.is_losing = losing.is_unavailable = True
    with pytest.raises(StreamlingError, match="the connection was lost"):
        catalogue.put(ORDERS, spec("a"), ALICE)
    assert (catalogue.get(ORDERS), catalogue.is_stale) == (before, True)
    since = catalogue.stale_since
    assert since is not None
    with pytest.raises(StreamlingError, match="the connection was refused"):
        catalogue.put(ORDERS, spec("b"), ALICE)
    assert catalogue.stale_since == since
    losing.is_unavailable = False
    catalogue.refresh()
    assert (catalogue.get(ORDERS).definition, catalogue.is_stale, catalogue.stale_since) == ("a", False, None)


def test_the_limit_of_the_audit_log_counts_what_the_reader_may_see(catalogue):
    catalogue.create(ORDERS, spec(), ALICE)
    for number in range(3):
        catalogue.create(PipelineKey("shop", f"n{number}"), spec(), ALICE)
    catalogue.audit.record("set secret", "alice", PipelineKey("", "password"))
    assert [entry.name for entry in catalogue.audit.newest(2, ["default", "other"])] == ["orders"]
    assert [entry.name for entry in catalogue.audit.newest(2, ["shop"])] == ["n2", "n1"]
    assert catalogue.audit.newest(2, []) == []


def test_a_database_that_works_can_be_written(database):
    database.check_writable()
    database.check_writable()


def test_listeners_hear_of_changes(catalogue):
    heard: list[int] = []
    catalogue.on_change = lambda: heard.append(1)
    catalogue.create(ORDERS, spec(), ALICE)
    catalogue.create(PipelineKey("default", "other"), spec(), ALICE)
    assert len(heard) == 2


@pytest.mark.parametrize(
    ("namespace", "name"), [("a.b", "x"), ("", "x"), ("a", ""), ("A", "x"), ("a", "x/y"), ("a", "-x")]
)
def test_invalid_names_are_rejected(namespace, name):
    with pytest.raises(StreamlingError, match="is invalid, expected"):
        PipelineKey.checked(namespace, name)
