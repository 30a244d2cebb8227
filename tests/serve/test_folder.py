"""A folder of pipeline files and the catalogue."""

from __future__ import annotations

import pytest

from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.serve.catalogue import Actor, Catalogue, open_database
from streamling.serve.folder import PipelineFolder
from streamling.serve.model import PipelineBody, PipelineKey


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue(open_database(AppConfig(state_backend={"backend_type": "InMemory"})))


@pytest.fixture
def folder(tmp_path, catalogue) -> PipelineFolder:
    return PipelineFolder(tmp_path, catalogue)


def names(catalogue: Catalogue) -> dict[str, str | None]:
    return {key.name: record.deleting for key, record in catalogue.records().items()}


def test_files_become_pipelines_named_after_them(tmp_path, catalogue, folder):
    (tmp_path / "Orders (EU).yaml").write_text("sources: {}")
    (tmp_path / "users.yml").write_text("resource_size: xs\nisolation: process")
    (tmp_path / "notes.txt").write_text("no pipeline")
    (tmp_path / ".hidden.yaml").write_text("no pipeline")
    folder.apply()
    records = catalogue.records()
    assert {key.name for key in records} == {"orders-eu", "users"}
    users = records[PipelineKey("default", "users")]
    assert (users.size, users.isolation, users.managed_by) == ("xs", "process", "dir")


def test_changes_and_removals_follow(tmp_path, catalogue, folder):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text("sources: {}")
    folder.apply()
    (tmp_path / "a.yaml").write_text("sources: {} # changed")
    (tmp_path / "b.yaml").unlink()
    folder.apply()
    assert catalogue.get(PipelineKey("default", "a")).revision == 2
    assert names(catalogue) == {"a": None, "b": "keep"}


def test_an_unchanged_file_is_no_change(tmp_path, catalogue, folder):
    (tmp_path / "a.yaml").write_text("sources: {}")
    folder.apply()
    PipelineFolder(tmp_path, catalogue).apply()
    assert catalogue.get(PipelineKey("default", "a")).generation == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [("sources: [", "bad.yaml:2:1: a value is expected"), ("resource_size: huge", "resource_size or isolation has")],
)
def test_a_bad_file_is_a_problem_of_its_pipeline_only(tmp_path, catalogue, folder, text, problem):
    (tmp_path / "bad.yaml").write_text(text)
    (tmp_path / "good.yaml").write_text("sources: {}")
    folder.apply()
    assert problem in (catalogue.get(PipelineKey("default", "bad")).problem or "")
    assert catalogue.get(PipelineKey("default", "good")).problem is None
    (tmp_path / "bad.yaml").write_text("sources: {}")
    folder.apply()
    assert catalogue.get(PipelineKey("default", "bad")).problem is None


def test_a_bad_file_is_logged_as_an_error_once(tmp_path, folder, caplog):
    def errors() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]

    (tmp_path / "bad.yaml").write_text("sources: [")
    folder.apply()
    (tmp_path / "good.yaml").write_text("sources: {}")
    folder.apply()
    (found,) = errors()
    assert found.startswith(f"a file of {tmp_path} cannot be used: bad.yaml:2:1: a value is expected")
    (tmp_path / "bad.yaml").write_text("sources: a: b")
    folder.apply()
    assert len(errors()) == 2


def test_two_files_with_one_name_are_a_problem(tmp_path, catalogue, folder):
    (tmp_path / "a.yaml").write_text("sources: {}")
    (tmp_path / "A.yaml").write_text("sources: {}")
    folder.apply()
    assert "have the same name 'a'" in (catalogue.get(PipelineKey("default", "a")).problem or "")


def test_a_pipeline_of_the_api_is_not_touched(tmp_path, catalogue, folder):
    catalogue.create(PipelineKey("default", "a"), PipelineBody(definition="theirs"), Actor("alice"))
    (tmp_path / "a.yaml").write_text("ours")
    folder.apply()
    assert catalogue.get(PipelineKey("default", "a")).definition == "theirs"


def test_a_file_that_returns_while_its_pipeline_is_deleted_is_used_afterwards(tmp_path, catalogue, folder):
    key = PipelineKey("default", "a")
    (tmp_path / "a.yaml").write_text("sources: {}")
    folder.apply()
    (tmp_path / "a.yaml").unlink()
    folder.apply()
    (tmp_path / "a.yaml").write_text("sources: {}")
    folder.apply()
    assert catalogue.get(key).deleting == "keep"
    catalogue.remove(key)
    folder.apply()
    assert catalogue.get(key).deleting is None


def test_a_folder_that_does_not_exist_is_an_error(tmp_path, catalogue):
    with pytest.raises(StreamlingError, match="does not exist"):
        PipelineFolder(tmp_path / "missing", catalogue)
