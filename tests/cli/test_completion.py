"""Shell completion: the script, and the suggestions."""

import subprocess

import pytest

from tests.cli.conftest import clean_environment, command_line


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_calls_our_command(project, shell):
    result = project.call("completion", shell)
    assert (result.code, result.err) == (0, "")
    assert f"_STREAMLING_COMPLETE={shell}_complete" in result.out


def test_bash_accepts_its_script(project):
    script = project.call("completion", "bash").out
    assert subprocess.run(["bash", "-n"], input=script.encode(), check=False).returncode == 0


def _complete(project, *words: str) -> list[str]:
    """The suggestions for bash for these words, the last one unfinished."""
    answer = subprocess.run(
        command_line(), cwd=project.folder, capture_output=True, text=True, timeout=60,
        env={
            **clean_environment(), "_STREAMLING_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["streamling", *words]), "COMP_CWORD": str(len(words)),
        },
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.split()


def test_the_first_word_is_a_command(project):
    assert {"plain,run", "plain,state"} <= set(_complete(project, ""))
    assert _complete(project, "sta") == ["plain,state"]


@pytest.mark.parametrize(
    "words", [("pip",), ("run", "pip"), ("--validate", "pip"), ("state", "show", "pip")], ids=" ".join
)
def test_a_pipeline_file_is_completed_wherever_one_is_expected(project, words):
    project.write("pip.txt", "")
    assert _complete(project, *words) == ["plain,pipeline.yaml"]


def test_the_shell_completes_folders_until_there_is_a_file(project):
    project.write("more/a.yaml", "")
    assert _complete(project, "run", "mo") == ["file,mo"]
    assert _complete(project, "run", "more/") == ["plain,more/a.yaml"]
    assert _complete(project, "run", "nowhere/") == []


def test_options_and_sub_commands_are_completed(project):
    assert _complete(project, "run", "--dr") == ["plain,--dry-run"]
    assert _complete(project, "state", "e") == ["plain,export"]
    assert _complete(project, "completion", "z") == ["plain,zsh"]
