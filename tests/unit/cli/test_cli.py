"""The command line, end to end."""

import io
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import twoway as tw
from twoway.cli import EXIT_CODES, run
from twoway.cli.answers import printed_answer
from twoway.text import escaped

RED = "\x1b[31mred\x1b[0m"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A survey with holes, and a model of it."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    young = rng.random(600) < 0.4
    survey = pd.DataFrame(
        {
            "age": np.where(young, "18-39", "40+"),
            "vote": np.where(rng.random(600) < np.where(young, 0.8, 0.3), "yes", "no"),
            "trust": np.where(young, 3, 2) + rng.integers(-1, 2, 600),
        }
    ).mask(rng.random((600, 3)) < 0.2)
    survey["trust"] = survey["trust"].astype("Int64")
    survey["income"] = rng.lognormal(10, 1, 600).round(2)
    survey["w"] = rng.integers(1, 4, 600)
    survey.to_csv(folder / "survey.csv", index=False)
    fit = ["fit", str(folder / "survey.csv"), "-o", str(folder / "m.twoway"), "--rank", "2", "--solver", "em"]
    assert run([*fit, "--drop", "w", "--bins", "income=3"]) == 0
    return folder


def test_fit_prints_a_summary(cli, folder):
    code, out, err = cli(
        "fit", "survey.csv", "-o", "x.twoway", "--rank", "2", "--solver", "em", "--only", "age,vote,trust"
    )
    assert (code, err) == (0, "")
    assert "600 records, 20.8% of their cells missing" in out
    assert "3 variables, rank 2: x.twoway" in out
    assert "age × vote" in out
    assert "converged" in out
    assert tw.load(folder / "x.twoway").rank == 2
    code, out, _ = cli(
        "fit", "survey.csv", "-o", "x.twoway", "--rank", "1", "--counts", "w", "--force", "--json", "--drop=income"
    )
    told = json.loads(out)
    assert told["records"] == 600
    assert told["variables"] == 3
    assert tw.load(folder / "x.twoway").report.n_records > 1000


def test_fit_answers_at_once(cli, folder):
    fit = ["fit", "survey.csv", "-o", "a.twoway", "--rank", "2", "--solver", "em", "--only", "age,vote", "--force"]
    code, out, _ = cli(*fit, "--ask", "P(vote | age)")
    _, asked, _ = cli("ask", "a.twoway", "P(vote | age)")
    assert code == 0
    assert out.endswith("\n\n" + asked)
    code, out, _ = cli(*fit, "--ask", "P(vote)", "--ask", "H(vote)", "--json")
    assert [json.loads(line).get("question") for line in out.splitlines()] == [None, "P(vote)", "H(vote)"]


def test_a_wrong_question_raises_before_the_fit(cli, folder):
    code, out, err = cli("fit", "survey.csv", "-o", "never.twoway", "--ask", "P(vot)", "--drop", "income")
    assert (code, out) == (3, "")
    assert err.startswith("twoway: nothing was fitted: no variable 'vot'; did you mean 'vote'?")
    assert not (folder / "never.twoway").exists()
    # A question that is well formed but has no answer.
    for question in ("E(vote)", "P(trust > 9)", "P(age >= 40+, age < 40+)"):
        code, out, err = cli("fit", "survey.csv", "-o", "never.twoway", "--ask", question, "--drop", "income")
        assert (code, out) == (3, ""), question
        assert not (folder / "never.twoway").exists()


@pytest.mark.parametrize("name", ["new.csv", "new.parquet", "new.jsonl"])
def test_models_and_tables_are_not_written_under_names_of_data_files(cli, folder, name):
    for command in (["fit", "survey.csv"], ["count", "survey.csv"], ["update", "m.twoway", "survey.csv"]):
        code, _, err = cli(*command, "-o", name)
        assert code == 3
        assert name in err
    assert not (folder / name).exists()


def test_fit_gives_the_model_of_the_library(cli, folder):
    cli(
        "fit",
        "survey.csv",
        "-o",
        "y.twoway",
        "--rank",
        "2",
        "--solver",
        "em",
        "--seed",
        "3",
        "--only",
        "age",
        "--only",
        "vote",
    )
    frame = pd.read_csv(folder / "survey.csv")[["age", "vote"]]
    tw.fit(frame, rank=2, solver="em", seed=3).save(folder / "z.twoway")
    assert (folder / "y.twoway").read_bytes() == (folder / "z.twoway").read_bytes()


def test_ask(cli, folder):
    pmf = tw.load(folder / "m.twoway")
    code, out, _ = cli("ask", "m.twoway", "P(vote = yes | age = 18-39)")
    assert code == 0
    assert float(out.split(",")[0]) == pytest.approx(pmf.given({"age": "18-39"}).prob({"vote": "yes"}), abs=1e-4)
    code, out, _ = cli("ask", "m.twoway", "P(vote)", "H(vote)", "mode(vote, age)")
    assert out.startswith("P(vote)\nvote  probability  observed  records\nno")
    assert " nats\n\nmode(vote, age)\n" in out
    code, out, _ = cli("ask", "m.twoway", "P(vote)", "I(vote; age)", "--json", "--base", "2")
    first, second = map(json.loads, out.splitlines())
    assert first["axes"] == [{"variable": "vote", "categories": ["no", "yes"]}]
    assert first["probabilities"] == pmf.marginal("vote").array.tolist()
    assert second["value"] == pytest.approx(pmf.mutual_information("vote", "age", base=2))
    # With and without the parser of arguments.
    assert cli("ask", "m.twoway", "P(vote)", "--json") == cli("ask", "--json", "m.twoway", "P(vote)")


def test_answers_show_what_was_observed(cli, folder, tmp_path):
    frame = pd.read_csv(folder / "survey.csv").dropna(subset=["age", "vote"])
    young = frame[frame["age"] == "18-39"]
    n, share = len(young), (young["vote"] == "yes").mean()
    out = cli("ask", "m.twoway", "P(vote = yes | age = 18-39)")[1]
    assert out.endswith(f", observed {share:.4f} ({n:,} records)\n")
    out = cli("ask", "m.twoway", "P(vote | age)")[1].splitlines()
    assert out[0].split() == ["age", "\\", "vote", "no", "yes", "records"]
    assert out[1].split()[4:] == [f"({share:.4f})", str(n)]
    assert out[-1] == "in brackets: the observed share"
    content = json.loads(cli("ask", "m.twoway", "P(vote | age)", "--json")[1])
    assert content["observed"][0] == pytest.approx([1 - share, share])
    assert content["records"] == [[n, n], [len(frame) - n] * 2]
    three = json.loads(cli("ask", "m.twoway", "P(vote | age, trust)", "--json")[1])
    assert not {"observed", "records"} & three.keys()
    secret = str(tmp_path / "secret.twoway")
    fit = ("fit", str(folder / "survey.csv"), "-o", secret, "--only", "age,vote", "--rank", "1", "--smoothing", "1")
    assert cli(*fit, "--no-counts")[0] == 0
    assert "observed" not in cli("ask", secret, "P(vote | age)")[1]
    assert cli("info", secret)[1].endswith("\n\ncounts: none\n")
    assert json.loads(cli("info", secret, "--json")[1])["counts"] is False
    # One component makes age and vote independent, which they are not.
    assert cli(*fit, "--force")[0] == 0
    assert "exact numbers" in cli("info", secret)[1]
    err = cli("ask", secret, "P(vote = yes | age = 18-39)")[2]
    assert f"shares differ by more than chance: observed {share:.4f} of {n:,} records, modelled" in err
    err = cli("ask", secret, "P(vote | age)")[2]
    assert "differ by more than chance, most at age = " in err
    assert err.count("note") == 1
    assert cli("ask", secret, "P(vote)")[2] == ""


def test_answers_go_to_a_file(cli, folder, tmp_path):
    pmf = tw.load(folder / "m.twoway")
    asked = ["P(vote | age)", "P(trust = 2)", "mode(vote, trust)", "H(vote)"]
    code, out, _ = cli("ask", "m.twoway", *asked, "-o", str(tmp_path / "answers.csv"))
    assert (code, out) == (0, "")
    table = pd.read_csv(tmp_path / "answers.csv")
    assert list(table) == ["question", "age", "vote", "trust", "value", "observed", "records"]
    assert list(table["question"]) == [asked[0]] * 4 + asked[1:]
    assert list(table["value"][:4]) == pytest.approx(tw.ask(pmf, asked[0]).array.ravel())
    assert table.loc[3, ["age", "vote"]].tolist() == ["40+", "yes"]
    mode = pmf.mode(["vote", "trust"])
    assert (table.loc[5, "vote"], table.loc[5, "trust"]) == (mode.values["vote"], mode.values["trust"])
    assert table.loc[5, "value"] == pytest.approx(mode.probability)
    assert cli("ask", "m.twoway", *asked, "-o", str(tmp_path / "answers.csv"))[0] == 4  # it is there already
    assert cli("ask", "m.twoway", asked[1], "-o", str(tmp_path / "answers.csv"), "--force")[0] == 0
    assert len(pd.read_csv(tmp_path / "answers.csv")) == 1
    assert cli("ask", "m.twoway", *asked, "-o", str(tmp_path / "answers.json"))[0] == 0
    lines = cli("ask", "m.twoway", *asked, "--json")[1].splitlines()
    assert json.loads((tmp_path / "answers.json").read_text()) == [json.loads(line) for line in lines]
    assert cli("ask", "m.twoway", *asked, "-o", str(tmp_path / "answers.jsonl"))[0] == 0
    assert (tmp_path / "answers.jsonl").read_text().splitlines() == lines
    assert cli("ask", "m.twoway", *asked, "-o", str(tmp_path / "answers.parquet"))[0] == 0
    assert pd.read_parquet(tmp_path / "answers.parquet")["value"].notna().all()
    assert cli("ask", "m.twoway", *asked, "-o", str(tmp_path / "answers.nix"))[0] == 4
    assert cli("ask", "m.twoway", "P(nix)", "-o", str(tmp_path / "wrong.csv"))[0] == 3
    assert not (tmp_path / "wrong.csv").exists()


def test_output_is_cut_on_a_terminal_only(cli, tmp_path, monkeypatch):
    names = [f"the {n}th of many categories" for n in range(30)]
    schema = tw.Schema((tw.Variable("many", names), tw.Variable("few", tuple(range(12)))))
    pmf = tw.JointPMF([1.0], [np.full((30, 1), 1 / 30), np.full((12, 1), 1 / 12)], schema)
    pmf.save(tmp_path / "m.twoway")
    tables = tw.count({f"x{n}": [0, 1] for n in range(8)})
    tables.save(tmp_path / "m.tables")
    for arguments in (
        ("ask", "m.twoway", "P(many)"),
        ("ask", "m.twoway", "P(many, few)"),
        ("info", "m.twoway"),
        ("info", "m.tables"),
    ):
        given = [str(tmp_path / one) if one.startswith("m.") else one for one in arguments]
        code, out, _ = cli(*given)
        assert code == 0
        assert "…" not in out
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        assert "…" in cli(*given)[1]
        monkeypatch.undo()
    assert names[29] in cli("ask", str(tmp_path / "m.twoway"), "P(many)")[1]


def test_bins_at_given_numbers(cli, folder, tmp_path):
    model = str(tmp_path / "cut.twoway")
    fit = ["fit", str(folder / "survey.csv"), "-o", model, "--only", "age,vote,income", "--rank", "2"]
    fit += ["--solver", "em"]
    assert cli(*fit, "--bins", "income=10000,20000,1e9")[0] == 0
    income = tw.load(model).schema["income"]
    assert income.categories == (
        "below 10000",
        "10000 to below 20000",
        "20000 to below 1000000000",
        "1000000000 or more",
    )
    seen = pd.read_csv(folder / "survey.csv")["income"]
    assert income.values[0] == pytest.approx(seen[seen < 10000].mean())
    assert income.values[3] == 1e9
    code, out, _ = cli("ask", model, "P(income >= 20000)")
    assert float(out.split(",")[0]) == pytest.approx((seen >= 20000).mean(), abs=0.02)
    code, _, err = cli("ask", model, "P(income >= 15000)")
    assert code == 3
    assert "10000, 20000" in err
    for wrong in ("income=2,1", "income=1,x", "income=1,1", "income=,"):
        assert cli(*fit, "--force", "--bins", wrong)[0] == 3


def test_ask_answers_the_other_questions_and_reports_each_bad_one(cli, tmp_path):
    asked = ("P(vot)", "P(vote)", "H(age) / H(vote)", "H(vote)")
    code, out, err = cli("ask", "m.twoway", *asked)
    assert code == 3
    assert out == cli("ask", "m.twoway", asked[1], asked[3])[1]
    assert asked[0] in err
    assert asked[2] in err
    assert asked[1] not in err
    assert err.count("^\n") == 2
    assert err.endswith("twoway: of 4 questions, 2 could not be answered\n")
    code, out, err = cli("ask", "m.twoway", "P(vote | age)", "P(vote) - P(age)", "E(age)", "--json")
    assert (code, out.count("\n")) == (3, 1)
    assert "\ntwoway: E(age): " in err  # an error that does not show the question itself
    assert cli("ask", "m.twoway", *asked, "-o", str(tmp_path / "some.csv"))[0] == 3
    assert set(pd.read_csv(tmp_path / "some.csv")["question"]) == {"P(vote)", "H(vote)"}
    code, _, err = cli("ask", "m.twoway", "P(vot)", "P(vot)", "-o", str(tmp_path / "none.csv"))
    assert (code, err.count("did you mean")) == (3, 2)
    assert not (tmp_path / "none.csv").exists()
    code, _, err = cli("fit", "survey.csv", "-o", "never.twoway", "--ask", "P(vot)", "--ask", "P(agee)")
    assert (code, err.count("did you mean")) == (3, 2)
    assert err.endswith("twoway: nothing was fitted: of 2 questions, 2 could not be answered\n")


def test_fit_says_what_to_do_about_tables_that_are_off(cli, folder):
    fit = ["fit", "survey.csv", "-o", "off.twoway", "--rank", "1", "--only", "age,vote,trust", "--force"]
    _, out, _ = cli(*fit)
    assert "tables are off by more than chance" in out
    assert "try --structure tree" in out
    assert "twoway check off.twoway --data DATA lists the tables that are off" in out
    assert cli("check", "off.twoway", "--data", "survey.csv")[0] == 0


def test_ask_notes_what_could_be_misread(cli):
    _, out, err = cli("ask", "m.twoway", "P(age >= 40+)")
    assert "note: age >= 40+ selects, in the order of the categories: 40+" in err
    assert float(out.split(",")[0]) > 0
    _, _, err = cli("ask", "m.twoway", "P(vote | age = 18-39, trust = 1, income >= 34400)")
    assert "of the 600 records" in err


def test_notes_name_their_question_where_several_are_asked(cli, tmp_path):
    asked = ("P(age >= 40+)", "P(vote)")
    said = "note: P(age >= 40+): age >= 40+ selects, in the order of the categories: 40+\n"
    assert cli("ask", "m.twoway", *asked)[2] == said
    assert cli("ask", "m.twoway", *asked, "-o", str(tmp_path / "answers.csv"))[2] == said


def test_ask_reads_standard_input(cli, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("# a remark\n\nH(vote)\nP(vote = yes)\n"))
    code, out, _ = cli("ask", "m.twoway", "-")
    assert code == 0
    assert out.count("H(vote)") == out.count("P(vote = yes)") == 1
    monkeypatch.setattr("sys.stdin", io.StringIO("H(vote)\n"))
    assert cli("ask", "m.twoway")[1].endswith("nats\n")


def test_the_prompt(cli, monkeypatch, tmp_path):
    """Questions one after the other; a wrong one does not end it, and history is kept."""
    from twoway.cli.ask import ask_history_file

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lines = iter(["H(vote)", "", "H(vot)", "?", "P(vote = yes)"])

    def type_in(_):
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", type_in)
    monkeypatch.setattr("twoway.cli.ask.is_terminal", lambda stream: True)
    code, out, _ = cli("ask", "m.twoway")
    assert code == 0
    assert "4 variables: age, vote, trust, income" in out
    assert "did you mean 'vote'?" in out
    assert "vote: no, yes" in out
    assert out.count("nats") == 1
    assert out.rstrip().split("\n")[-1].startswith("0.")
    assert ask_history_file() == tmp_path / "twoway" / "history"
    assert ask_history_file().exists()


def test_the_prompt_ends_on_exit_but_not_on_ctrl_c(cli, monkeypatch, tmp_path):
    import readline

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found, keys = [], iter(["Ctrl-C", "Tab", "quit", "H(vote)"])

    def complete(text):
        completer = readline.get_completer()
        monkeypatch.setattr(readline, "get_line_buffer", lambda: text)
        monkeypatch.setattr(readline, "get_endidx", lambda: len(text))
        found.extend(iter(lambda: completer(text, len(found)), None))

    def type_in(_):
        match next(keys):
            case "Ctrl-C":
                raise KeyboardInterrupt
            case "Tab":
                complete("P(vo")
                return ""
            case text:
                return text

    monkeypatch.setattr("builtins.input", type_in)
    monkeypatch.setattr("twoway.cli.ask.is_terminal", lambda stream: True)
    code, out, _ = cli("ask", "m.twoway")
    assert (code, found) == (0, ["vote"])
    assert "nats" not in out


def test_impute_leaves_observed_cells_as_they_are(cli, folder):
    before = pd.read_csv(folder / "survey.csv", dtype=str)
    for how in ("mode", "mean", "sample"):
        code, out, _ = cli("impute", "m.twoway", "survey.csv", "--how", how, "-o", f"{how}.csv")
        assert code == 0
        assert "missing cells in 600 records filled" in out
        after = pd.read_csv(folder / f"{how}.csv", dtype=str)
        assert list(after) == list(before)
        assert not after.isna().any().any()
        same = after.where(before.notna())
        pd.testing.assert_frame_equal(same[["age", "vote", "income", "w"]], before[["age", "vote", "income", "w"]])
        np.testing.assert_allclose(same["trust"].astype(float), before["trust"].astype(float))


def test_impute_probabilities(cli, folder):
    code, out, _ = cli("impute", "m.twoway", "survey.csv", "--proba")
    assert code == 0
    told = pd.read_csv(io.StringIO(out))
    assert list(told) == ["record", "variable", "category", "probability"]
    np.testing.assert_allclose(told.groupby(["record", "variable"])["probability"].sum(), 1)
    before = pd.read_csv(folder / "survey.csv")
    assert len(told.groupby(["record", "variable"])) == before.isna().sum().sum()
    hole = told[told["variable"] == "vote"].iloc[0]
    record = before.loc[hole["record"] - 1]
    pmf = tw.load(folder / "m.twoway")
    binned = np.searchsorted(pmf.schema["income"].edges, record["income"], side="right")
    known = {"age": record["age"], "trust": record["trust"], "income": pmf.schema["income"].categories[binned]}
    assert hole["probability"] == pytest.approx(pmf.given(known).prob({"vote": hole["category"]}))


def test_binned_columns_are_filled_with_numbers(cli, folder, tmp_path):
    path = tmp_path / "holes.csv"
    path.write_text("age,vote,trust,income\n18-39,yes,3,\n40+,no,2,12.5\n")
    cli("impute", "m.twoway", str(path), "-o", str(tmp_path / "full.csv"))
    full = pd.read_csv(tmp_path / "full.csv")
    assert full["income"][1] == 12.5
    assert full["income"][0] in tw.load(folder / "m.twoway").schema["income"].values


def test_counts_and_weights_decide_where_bins_meet(cli, folder):
    pd.DataFrame({"x": range(8), "y": ["a", "b"] * 4, "n": [9] + [1] * 7}).to_csv(folder / "counted.csv", index=False)
    for option, edges in ((["--counts", "n"], (1.0,)), (["--weights", "n"], (1.0,)), (["--drop", "n"], (4.0,))):
        fit = ["fit", "counted.csv", "-o", "counted.twoway", "--force", "--bins", "x=2", "--rank", "1", *option]
        fit += ["--solver", "em"]
        assert cli(*fit)[0] == 0
        assert tw.load(folder / "counted.twoway").schema["x"].edges == edges


def test_numbers_that_mean_missing_are_in_no_bin(cli, folder):
    for ending in ("csv", "parquet"):
        frame = pd.DataFrame({"x": [-9, *range(40)] * 2, "y": ["a", "b"] * 41})
        frame.to_csv(folder / "nine.csv", index=False)
        frame.to_parquet(folder / "nine.parquet")
        out = f"nine-{ending}.twoway"
        code, text, _ = cli(
            "fit", f"nine.{ending}", "-o", out, "--missing=-9", "--bins", "x=2", "--rank", "1", "--solver", "em"
        )
        assert code == 0
        assert "82 records, 1.2% of their cells missing" in text
        variable = tw.load(folder / out).schema["x"]
        assert len(variable) == 2
        assert variable.values == (9.5, 29.5)


def test_sample(cli, folder):
    code, out, _ = cli("sample", "m.twoway", "-n", "50", "--seed", "1")
    assert code == 0
    drawn = pd.read_csv(io.StringIO(out))
    assert drawn.shape == (50, 4)
    assert set(drawn["vote"]) == {"no", "yes"}
    cli("sample", "m.twoway", "-n", "50", "--seed", "1", "-o", "drawn.parquet")
    typed = pd.read_parquet(folder / "drawn.parquet")
    assert typed["income"].dtype.ordered  # bins keep their order
    plain = typed.astype({"income": drawn["income"].dtype})
    pd.testing.assert_frame_equal(plain, drawn, check_dtype=False)
    _, out, _ = cli("sample", "m.twoway", "-n", "5", "--given", "vote = no, age != 40+", "--json")
    assert {(one["vote"], one["age"]) for one in map(json.loads, out.splitlines())} == {("no", "18-39")}


def test_labels_of_several_types_are_drawn_as_text(cli, tmp_path):
    model = str(tmp_path / "mixed.twoway")
    tw.JointPMF([1.0], [[[0.5], [0.5]]], tw.Schema((tw.Variable("a", (1, "1")),))).save(model)
    assert set(cli("sample", model, "-n", "50")[1].split()) == {"a", "1", "'1'"}


def test_an_interrupted_fit_is_saved_and_marked(cli, folder, monkeypatch):
    def interrupt(progress):
        raise KeyboardInterrupt

    monkeypatch.setattr("twoway.cli.fit.has_progress_output", lambda: interrupt)
    code, out, err = cli(
        "fit", "survey.csv", "-o", "i.twoway", "--only", "age,vote,trust", "--rank", "2", "--solver", "em"
    )
    assert code == 130
    assert (folder / "i.twoway.checkpoint").exists()
    assert "'i.twoway.checkpoint' holds the state of the fit: the same command continues it" in err
    assert "interrupted by Ctrl-C" in out
    assert tw.load(folder / "i.twoway").report.stop_reason == "interrupted"


def test_a_fit_out_of_time_is_saved_and_marked_and_goes_on(cli, folder, monkeypatch):
    command = ["fit", "survey.csv", "-o", "s.twoway", "--only", "age,vote,trust", "--rank", "2", "--solver", "em"]
    monkeypatch.setattr("twoway.solvers.watch.time", SimpleNamespace(monotonic=lambda: 1e18))
    code, out, _ = cli(*command, "--seconds", "60")
    assert code == 0
    assert "em, stopped at the time limit after 2 passes" in out
    assert "the fit was ended by its time limit; this is the best model up to then" in out
    assert tw.load(folder / "s.twoway").report.stop_reason == "time limit"
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert cli(*command)[0] == 0  # without --force
    assert tw.load(folder / "s.twoway").report.converged
    code, _, error = cli(*command, "--force", "--seconds", "0")
    assert code == 3
    assert "seconds must be" in error


def test_score(cli, folder):
    code, out, _ = cli("score", "m.twoway", "survey.csv")
    assert code == 0
    scores = pd.read_csv(io.StringIO(out))
    assert scores["record"].tolist() == list(range(1, 601))
    _, out, _ = cli("score", "m.twoway", "survey.csv", "--top", "2", "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert [one["log_prob"] for one in told] == scores["log_prob"].nsmallest(2).tolist()
    odd = told[0]["surprising"]
    assert [cell["probability"] for cell in odd] == sorted(cell["probability"] for cell in odd)
    _, out, _ = cli("score", "m.twoway", "survey.csv", "--top", "1")
    assert out.startswith(f"record {told[0]['record']}: log-probability")
    assert f"{odd[0]['variable']} = {odd[0]['category']} has probability" in out
    code, out, _ = cli("score", "m.twoway", "survey.csv", "--top", "2", "-o", "least.csv")
    assert (code, out) == (0, "")
    table = pd.read_csv(folder / "least.csv")
    assert list(table) == ["record", "log_prob", "variable", "category", "probability", "expected"]
    assert table["record"].unique().tolist() == [one["record"] for one in told]
    assert table["probability"][: len(odd)].tolist() == pytest.approx([cell["probability"] for cell in odd])


def test_count_add_and_fit(cli, folder):
    code, out, _ = cli("count", "survey.csv", "-o", "t.tables", "--drop", "income,w")
    assert code == 0
    assert "600 records counted: 3 tables of 3 variables in t.tables" in out
    once = tw.Tables.load(folder / "t.tables")
    assert once == tw.count(pd.read_csv(folder / "survey.csv")[["age", "vote", "trust"]])
    assert cli("count", "survey.csv", "--add", "t.tables")[0] == 0
    assert tw.Tables.load(folder / "t.tables") == once + once
    _, out, _ = cli("info", "t.tables")
    assert "3 pairs of 3 variables" in out
    code, out, _ = cli("fit", "t.tables", "-o", "tt.twoway", "--rank", "2", "--solver", "coupled-nmf")
    assert code == 0
    assert "3 tables" in out
    assert "worst fit" in out
    code, out, err = cli("compare", "m.twoway", "tt.twoway")
    assert code == 0
    assert "age × vote" in out
    assert "only the first model has 'income'" in err
    told = json.loads(cli("compare", "m.twoway", "tt.twoway", "--json")[1])
    assert told["shared"] == 3
    assert len(told["pairs"]) == 3


def test_compare_models_that_are_about_different_things(cli, tmp_path):
    here = {"a": ["x", "y", "y"], "b": ["p", "q", "p"], "c": [1, 2, 2]}
    tw.fit(here, rank=1, solver="em").save(tmp_path / "one.twoway")
    there = {"a": ["x", "y", "y"], "b": ["p", "r", "p"], "d": [1, 2, 2]}
    tw.fit(there, rank=1, solver="em").save(tmp_path / "two.twoway")
    code, out, _ = cli("compare", str(tmp_path / "one.twoway"), str(tmp_path / "two.twoway"), "--json")
    told = json.loads(out)
    assert (code, told["shared"], told["pairs"]) == (0, 1, [])
    assert told["notes"][0].startswith("not compared: category 2 of 'b'")
    assert told["notes"][1:] == ["only the first model has 'c'", "only the second model has 'd'"]
    code, out, _ = cli("compare", str(tmp_path / "one.twoway"), str(tmp_path / "two.twoway"))
    assert "pairs that differ most" not in out
    tw.fit({"d": [1, 2, 2], "e": [1, 1, 2]}, rank=1, solver="em").save(tmp_path / "two.twoway")
    code, _, err = cli("compare", str(tmp_path / "one.twoway"), str(tmp_path / "two.twoway"))
    assert code == 3
    assert "no variable in common" in err


def test_info(cli, folder):
    code, out, _ = cli("info", "m.twoway")
    assert code == 0
    assert "a model of rank 2 with 4 variables" in out
    assert "18-39, 40+" in out
    told = json.loads(cli("info", "m.twoway", "--json")[1])
    assert told["rank"] == 2
    assert [variable["name"] for variable in told["variables"]] == ["age", "vote", "trust", "income"]


def test_weights_and_replicates_are_told_by_info_and_compare(cli, tmp_path):
    people = {"a": ["x", "y", "y", "x"] * 10, "b": ["p", None, "p", "q"] * 10}
    records = tw.Records(people, weights=[0.5, 1.5, 1.0, 2.0] * 10)
    pmf = tw.fit(records, rank=1, smoothing=0.5)
    path = str(tmp_path / "weighted.twoway")
    tw.bootstrap(pmf, records, n=20).save(path)
    effective = 50**2 / 75
    _, out, _ = cli("info", path)
    assert "records     33.3333 effective, with 70 observed cells" in out
    assert (
        "weights: 33.3333 effective records, because weights differ; the most observed variable has 40 records" in out
    )
    assert "replicates: 20, for intervals" in out
    content = json.loads(cli("info", path, "--json")[1])
    assert (content["people"], content["replicates"]) == (40, 20)
    _, out, _ = cli("compare", path, path)
    assert out.splitlines()[3].split("  ")[0] == "records"
    assert "33 effective, 40 in the most observed variable" in out
    fits = json.loads(cli("compare", path, path, "--json")[1])["models"]
    assert (fits[0]["records"], fits[0]["people"]) == (pytest.approx(effective), 40)
    tw.fit(people, rank=1, smoothing=0.5).save(path, counts=False)
    out = cli("info", path)[1] + cli("compare", path, path)[1]
    assert "records     40 with 70 observed cells" in out
    assert not any(word in out for word in ("effective", "replicates", "weights:"))


def test_published_tables(cli, tmp_path):
    (tmp_path / "age_x_vote.csv").write_text(",no,yes\nyoung,30%,70%\nold,65%,35%\nTotal,50%,50%\n")
    (tmp_path / "age_x_trust.csv").write_text(",low,high\nyoung,15%,85%\nold,58%,42%\nTotal,40%,60%\n")
    out = str(tmp_path / "m.twoway")
    code, text, _ = cli("fit", "--tables", str(tmp_path), "--kind", "row", "--total", "500", "-o", out, "--rank", "2")
    assert code == 0
    assert "2 tables" in text
    assert "no table      1 of 3 pairs: " in text
    code, text, _ = cli("ask", out, "P(vote | age)")
    assert text.startswith("age \\ vote  no")


# What goes wrong


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["fit", "nix.csv"], 4, "there is no file 'nix.csv'"),
        (["fit", "survey.csv", "-o", "m.twoway"], 4, "'m.twoway' already exists; --force"),
        (["fit", "survey.csv", "-o", "no/where.twoway"], 4, "there is no folder 'no'"),
        (["fit", "survey.csv", "-o", "new", "--drop", "agee"], 3, "no column 'agee'; did you mean 'age'?"),
        (["fit", "survey.csv", "-o", "new", "--weights", "ww"], 3, "no column 'ww' for the weights"),
        (["fit", "survey.csv", "-o", "new", "--bins", "vote"], 3, "'vote' does not hold numbers"),
        (["fit", "survey.csv", "-o", "new", "--bins", "income=1"], 3, "at least 2"),
        (["fit", "survey.csv", "-o", "new", "--only", "age", "--rank", "0"], 3, "rank must be a whole number"),
        (["fit", "survey.csv", "-o", "new", "--only", "age", "--solver", "emm"], 3, "did you mean 'em'?"),
        (["fit", "survey.csv", "-o", "new", "--only", "age", "--smoothing", "much"], 2, "'--smoothing'"),
        (["fit", "survey.csv", "-o", "new", "--only", "age", "--drop", "age"], 3, "no column"),
        (["fit", "survey.csv", "-o", "new", "--max-categories", "100"], 3, "--bins 'income'"),
        (["fit", "m.twoway", "-o", "new"], 3, "is a model already"),
        (["fit", "survey.csv", "--rank", "x"], 2, "--rank"),
        (["fit", "-o", "new"], 2, "--tables"),
        (["nonsense"], 2, "No such command"),
        (["ask", "survey.csv", "H(age)"], 4, "'survey.csv' is not a twoway file"),
        (["ask", "m.twoway", "H(agee)"], 3, "did you mean 'age'?"),
        (["ask", "m.twoway", "H(age)", "--base", "1"], 3, "base must be"),
        (["count", "survey.csv"], 2, "-o"),
        (["impute", "m.twoway", "survey.csv", "--how", "magic"], 3, "no way to impute 'magic'"),
        (["score", "m.twoway", "nix.csv"], 4, "there is no file"),
        (["sample", "m.twoway", "-n", "-1"], 3, "whole number of at least 0"),
        (["sample", "m.twoway", "-o", "x.xls"], 4, "ends in '.xls'"),
        (["sample", "m.twoway", "-o", "x.xlsx"], 4, "cannot write 'x.xlsx'"),
        (["impute", "m.twoway", "nix.csv", "-o", "x.xlsx"], 4, "cannot write 'x.xlsx'"),
        (["sample", "m.twoway", "-o", "s3://bucket/x.csv"], 3, "it is an address"),
        (["fit", "nosuch://bucket/x.csv"], 3, "x.csv' cannot be fetched"),
        (["fit", "nosuch://ann:se@cret@bucket/x.csv"], 3, "ann:***@bucket/x.csv' cannot be fetched, "),
        (["fit", "postgres://ann:se@cret@host/db"], 3, "ann:***@host/db' is an address"),
        (["check", "nix.twoway"], 4, "there is no file 'nix.twoway'"),
        (["info", "nix"], 4, "there is no file 'nix'"),
        (["compare", "m.twoway", "nix"], 4, "there is no file 'nix'"),
        (["ask", "m.twoway", "H(age)", "-o", "x.ods"], 4, "cannot write 'x.ods'"),
        (["ask", "m.twoway", "H(age)", "-o", "x.json.gz"], 4, "compressed files are read, not written"),
        (["ask", "https://ann:se@cret@host/m.twoway", "H(age)"], 4, "ann:***@host/m.twoway' is an address"),
        (["fit", "--tables", "gs://bucket/t", "-o", "new"], 4, "bucket/t' is an address"),
        (["count", "survey.csv", "--schema", "s3://b/s.json", "-o", "new"], 4, "b/s.json' is an address"),
    ],
)
def test_errors_are_a_line_and_a_code(cli, folder, arguments, code, told):
    before = sorted(folder.iterdir())
    got, out, err = cli(*arguments)
    assert (got, out) == (code, "")
    assert told in " ".join(err.replace("│", "").split())
    assert "Traceback" not in err
    assert code in EXIT_CODES
    if code != 2:  # the parser of arguments shows the usage too
        assert len(err.rstrip().split("\n")) <= 3
    assert sorted(folder.iterdir()) == before


def test_empty_files_and_free_text(cli, tmp_path):
    empty, header, text = tmp_path / "empty.csv", tmp_path / "header.csv", tmp_path / "text.csv"
    empty.write_text("")
    header.write_text("a,b\n")
    text.write_text("a,remark\n" + "".join(f"{n % 3},remark number {n}\n" for n in range(50_000)))
    out = str(tmp_path / "new")
    assert "is empty" in cli("fit", str(empty), "-o", out)[2]
    assert "has columns but no records" in cli("fit", str(header), "-o", out)[2]
    code, _, err = cli("fit", str(text), "-o", out)
    assert code == 3
    assert "column 'remark' has 50,000 distinct values in 50,000 records: free text or an identifier?" in err
    assert "--drop 'remark'" in err
    assert not (tmp_path / "new").exists()


def test_all_columns_with_too_many_categories_are_named_at_once(cli, tmp_path):
    path = tmp_path / "much.csv"
    path.write_text("id,a,income,remark\n" + "".join(f"i{n},{n % 3},{n}.5,r{n}\n" for n in range(50)))
    code, _, err = cli("fit", str(path), "-o", str(tmp_path / "new"), "--max-categories", "20")
    assert code == 3
    assert err.count("50 distinct values in 50 records") == 3
    assert "--drop 'id,remark' leaves them out; --bins 'income'" in err
    way = ["--drop", "id,remark", "--bins", "income", "--solver", "em"]
    code, _, err = cli("fit", str(path), "-o", str(tmp_path / "new"), "--max-categories", "20", "--rank", "1", *way)
    assert (code, err) == (0, "")


@pytest.mark.parametrize("limit", [20, 1000])
def test_a_whole_number_for_each_record_is_an_identifier(cli, tmp_path, limit):
    path = tmp_path / "much.csv"
    path.write_text("id,a\n" + "".join(f"{1000 + n},{n % 3}\n" for n in range(60)))
    options = ["--max-categories", str(limit), "--rank", "1", "--smoothing", "1"]
    _, out, err = cli("fit", str(path), "-o", str(tmp_path / "new"), *options)
    hint = err if limit == 20 else next(line for line in out.splitlines() if line.startswith("hint"))
    assert "--drop 'id' leaves" in hint
    assert "--bins" not in hint


@pytest.mark.parametrize("limit", [20, 1000])
def test_a_column_called_weight_is_proposed_as_weights(cli, tmp_path, limit):
    path = tmp_path / "survey.csv"
    path.write_text("a,weight\n" + "".join(f"{n % 3},{1 + n / 100}\n" for n in range(60)))
    options = ["--max-categories", str(limit), "--rank", "1", "--smoothing", "1"]
    _, out, err = cli("fit", str(path), "-o", str(tmp_path / "new"), *options)
    hint = err if limit == 20 else next(line for line in out.splitlines() if line.startswith("hint"))
    assert "--weights 'weight' uses it as survey weights" in hint


def test_few_records_get_a_warning(cli, tmp_path):
    path = tmp_path / "few.csv"
    for n_records, is_few in ((3, True), (12, False)):
        path.write_text("a,b\n" + "x,u\ny,v\nx,v\n" * (n_records // 3))
        out = cli("fit", str(path), "-o", str(tmp_path / "few.twoway"), "--force", "--rank", "1", "--smoothing", "1")[1]
        assert ("too few records, 3, to tell how variables depend" in out) == is_few


def test_a_disagreement_is_told_once(cli, tmp_path):
    for name, counts in (("vote", [30, 70, 65, 35]), ("trust", [15, 135, 28, 22])):
        schema = tw.Schema((tw.Variable("age", "xy"), tw.Variable(name, "uv")))
        tw.Tables(schema, np.array([[0, 1]]), np.array(counts, dtype=float) * 10).save(tmp_path / f"{name}.tables")
    files = [str(tmp_path / f"{name}.tables") for name in ("vote", "trust")]
    out = cli("fit", *files, "-o", str(tmp_path / "m.twoway"), "--rank", "1", "--smoothing", "1")[1]
    assert [line.split()[1:4] for line in out.splitlines() if line.startswith("warning")] == [
        ["sources", "contradict", "each"]
    ]


def test_a_spreadsheet_of_another_country(cli, tmp_path):
    """Semicolons, a byte-order mark, decimal commas, marks for missing cells among numbers."""
    path, model, full = tmp_path / "umfrage.csv", str(tmp_path / "m.twoway"), tmp_path / "full.csv"
    lines = [
        f"{n % 60 + 20 if n % 7 else 'k.A.'};{'ja' if n % 3 else 'nein'};{n % 4},5;{n % 2 + 1},25" for n in range(200)
    ]
    path.write_text("Alter;Wahl;Note;Gewicht\r\n" + "\r\n".join(lines) + "\r\n", encoding="utf-8-sig")
    options = ["--weights", "Gewicht", "--rank", "1", "--solver", "em"]
    code, _, err = cli("fit", str(path), "-o", model, "--bins", "Alter=3", *options)
    assert code == 3
    assert "column 'Alter' does not hold numbers, which --bins needs: it also holds 'k.A.'; --missing 'k.A.'" in err
    code, out, _ = cli("fit", str(path), "-o", model, *options)
    assert "200 records that count as 185" in out
    assert "numbers except for 'k.A.': 'Alter'; --missing 'k.A.'" in out
    assert "more than 40 categories" in cli("fit", str(path), "-o", model, *options, "--force", "--missing", "k.A.")[1]
    assert tw.load(model).expect("Note") == pytest.approx(2.0, abs=0.3)
    options += ["--bins", "Alter=3", "--missing", "k.A.", "--force"]
    code, out, _ = cli("fit", str(path), "-o", model, *options)
    assert code == 0
    assert "hint" not in out
    # Whole numbers stay whole, filled or not.
    assert cli("impute", model, str(path), "-o", str(full), "--missing", "k.A.")[0] == 0
    ages = pd.read_csv(full, dtype=str)["Alter"]
    assert ages.str.fullmatch(r"\d\d").all()
    assert cli("score", model, str(path))[0] == 0  # the model remembers what means missing
    # Of a mark that it does not know is told, not of the numbers beside it.
    path.write_text(path.read_text().replace("k.A.", "unbekannt"))
    code, _, err = cli("score", model, str(path))
    assert code == 3
    assert "no category 'unbekannt' of 'Alter'" in err
    assert cli("score", model, str(path), "--unseen", "missing")[0] == 0
    assert cli("impute", model, str(path), "--unseen", "missing")[0] == 0


def test_a_long_list_of_categories_is_shortened_in_notes(cli, tmp_path):
    path, model = tmp_path / "dates.csv", str(tmp_path / "dates.twoway")
    path.write_text("day,vote\n" + "".join(f"2024-01-{n % 28 + 1:02d},{n % 2}\n" for n in range(100)))
    assert cli("fit", str(path), "-o", model, "--rank", "1", "--solver", "em")[0] == 0
    _, out, err = cli("ask", model, "P(day >= 2024-01-10)")
    assert float(out.split(",")[0]) == pytest.approx(0.67, abs=0.05)
    assert "2024-01-10, 2024-01-11, …, 2024-01-28 (19 categories)" in err


def test_columns_that_are_not_categorical(cli, tmp_path):
    path, out = tmp_path / "x.parquet", str(tmp_path / "new")
    pd.DataFrame({"a": [1, 2, 1], "nothing": [None] * 3, "lists": [[1], [2], None]}).to_parquet(path)
    code, _, err = cli("fit", str(path), "-o", out)
    assert code == 3
    assert "column 'lists' has type list" in err
    assert "--drop 'lists'" in err
    code, _, err = cli("fit", str(path), "-o", out, "--drop", "lists")
    assert code == 3
    assert "column 'nothing' has no observed cell" in err
    assert cli("fit", str(path), "-o", out, "--drop", "lists,nothing", "--rank", "1", "--solver", "em")[0] == 0


def test_labels_that_the_model_does_not_know(cli, tmp_path):
    (tmp_path / "new.csv").write_text("age,vote,trust,income\n18-39,maybe,3,1\n")
    path = str(tmp_path / "new.csv")
    code, _, err = cli("score", "m.twoway", path)
    assert code == 3
    assert "no category 'maybe' of 'vote'" in err
    assert "--unseen missing reads such labels as missing" in err
    assert cli("score", "m.twoway", path, "--unseen", "missing")[0] == 0


def test_files_that_may_not_be_written_or_read(cli, folder, monkeypatch, tmp_path):
    from twoway.data.files import writing

    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(writing, "write_data_stream", full)
    code, out, err = cli("sample", "m.twoway", "-o", str(tmp_path / "x.csv"))
    assert (code, out) == (4, "")
    assert err == f"twoway: {tmp_path / 'x.csv'}: No space left on device\n"
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)
    code, _, err = cli("sample", "m.twoway", "-o", str(tmp_path / "x.csv"))
    assert (code, err) == (4, f"twoway: {tmp_path / 'x.csv'}: Permission denied\n")


def test_a_model_of_a_newer_format(cli, monkeypatch, tmp_path):
    monkeypatch.setattr("twoway.storage.container.FORMAT_VERSION", 99)
    tw.JointPMF([1.0], [[[1.0]]], tw.Schema((tw.Variable("a", ("x",)),))).save(tmp_path / "new.twoway")
    monkeypatch.undo()
    code = run(["ask", str(tmp_path / "new.twoway"), "H(a)"])
    assert code == 4


def test_unexpected_exceptions_are_reported_as_bugs(cli, monkeypatch):
    monkeypatch.setattr("twoway.model.pmf.JointPMF.load", lambda path: 1 / 0)
    code, _, err = cli("compare", "m.twoway", "m.twoway")
    assert code == 1
    assert err.startswith("twoway: unexpected ZeroDivisionError: division by zero; --debug shows where")
    assert run(["compare", "m.twoway", "m.twoway"], debug=True) == 1
    monkeypatch.setattr("twoway.model.pmf.JointPMF.load", lambda path: (_ for _ in ()).throw(KeyboardInterrupt))
    assert cli("ask", "m.twoway", "H(age)")[0] == 130


# Terminals


def test_an_unexpected_eof_error_is_reported_with_its_class(cli, monkeypatch):
    def ended(_):
        raise EOFError("no more data")

    monkeypatch.setattr(tw.JointPMF, "load", ended)
    code, _, err = cli("compare", "m.twoway", "m.twoway")
    assert code == 1
    assert err.strip().splitlines() == [
        "twoway: unexpected EOFError: no more data; --debug shows where, please report it"
    ]


def test_labels_cannot_speak_to_the_terminal(cli, tmp_path):
    """Names and labels with escape codes reach no human-readable output raw, on any way."""
    path, model = tmp_path / "red.csv", str(tmp_path / "red.twoway")
    path.write_text(f"{RED},b\n{RED},x\n\x1b]0;title\x07,y\n{RED},\u202ey\n")
    for arguments in (
        ["fit", str(path), "-o", model, "--rank", "1", "--solver", "em"],
        ["info", model],
        ["ask", model, "P(b)", f"P('{RED}')", f"mode('{RED}', b)"],
        ["ask", model, f"P('{RED}' = '{RED}x')"],
        ["ask", model, f"P({RED}x)"],
        ["score", model, str(path), "--top", "2"],
        ["compare", model, model],
        ["fit", str(tmp_path / f"{RED}.csv"), "-o", str(tmp_path / "n")],
        ["fit", str(path), "-o", str(tmp_path / "n"), "--drop", f"{RED}x"],
        ["ask", model, "P(b)", "--json"],
        ["info", model, "--json"],
    ):
        code, out, err = cli(*arguments)
        assert code in (0, 3, 4)
        assert out + err
        assert not {"\x1b", "\x07", "\u202e"} & set(out + err), arguments
    assert escaped(RED) == "\\x1b[31mred\\x1b[0m"


def test_data_is_escaped_where_a_person_looks(cli, tmp_path, monkeypatch):
    model = str(tmp_path / "red.twoway")
    tw.JointPMF([1.0], [[[1.0]]], tw.Schema((tw.Variable("a", (RED,)),))).save(model)
    assert RED in cli("sample", model, "-n", "1")[1]
    monkeypatch.setattr("twoway.cli.output.is_terminal", lambda stream: True)
    assert "\x1b" not in cli("sample", model, "-n", "1")[1]


# Processes


def twoway(folder, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "twoway", *arguments], cwd=folder, capture_output=True, text=True, check=False, **options
    )


def test_ask_imports_nothing_heavy(folder):
    script = (
        "import sys\nsys.argv = ['twoway', 'ask', 'm.twoway', 'P(vote | age = 40+)', 'I(vote; age)', '--json']\n"
        "from twoway.cli import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert ended.code == 0\n"
        "print(' '.join({name.split('.')[0] for name in sys.modules}))\n"
        "print(' '.join(name for name in sys.modules if name.startswith('twoway.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    *_, found, own = (set(line.split()) for line in done.stdout.splitlines()[-2:])
    assert "numpy" in found
    assert "twoway.model.pmf" in own
    assert not {name for name in own if name.startswith(("twoway.solvers", "twoway.uncertainty", "twoway.tables"))}
    heavy = {
        "numba",
        "scipy",
        "pandas",
        "sklearn",
        "pyarrow",
        "duckdb",
        "narwhals",
        "polars",
        "rich",
        "typer",
        "pydantic",
    }
    assert not found & heavy


def test_a_closed_pipe_ends_quietly(folder):
    command = f"{sys.executable} -m twoway sample m.twoway -n 200000 | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout == "age,vote,trust,income\n"
    assert done.stderr == ""
    assert done.returncode == 141


def test_debug_shows_the_traceback_anywhere_in_the_line(folder):
    done = twoway(folder, "ask", "m.twoway", "--debug", "H(nix)")
    assert done.returncode == 3
    assert "Traceback" in done.stderr
    assert "twoway: no variable 'nix'" in done.stderr


def test_usage_errors_are_two_lines(cli):
    code, out, err = cli("fit", "--rnak", "3")
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first.startswith("twoway: No such option")
    assert "--rnak" in first
    assert second == "twoway fit --help shows the options"
    code, out, err = cli()
    assert (code, err) == (2, "")
    assert "Usage: twoway" in out


def test_version_and_help():
    done = twoway(None, "--version")
    assert done.returncode == 0
    for name in ("twoway", "Python", "numpy", "numba", "pyarrow", "duckdb"):
        assert name in done.stdout


def test_codes_that_mean_missing_are_remembered(cli, folder):
    """A file is read alike by every command, though only fit was told of the codes."""
    rows = {"age": [1, 2, -9, 1] * 30, "income": [98, 5, 6, -9] * 30, "vote": ["no", "NA", "yes", "-"] * 30}
    pd.DataFrame(rows).to_csv(folder / "codes.csv", index=False)
    options = ("--missing=-9", "--missing", "income=98", "--missing", "-", "--rank", "1", "--solver", "em", "--force")
    assert cli("fit", "codes.csv", "-o", "codes.twoway", *options)[0] == 0
    schema = tw.load(folder / "codes.twoway").schema
    shown = cli("info", "codes.twoway")[1].splitlines()
    assert any("income" in line and "missing: " in line and "98" in line for line in shown)
    assert [variable.categories for variable in schema] == [(1, 2), (5, 6), ("no", "yes")]
    assert cli("impute", "codes.twoway", "codes.csv", "-o", "full.csv", "--force")[0] == 0
    full = pd.read_csv(folder / "full.csv")
    assert [set(full[name]) for name in full] == [{1, 2}, {5, 6}, {"no", "yes"}]
    for command in (("score", "codes.twoway", "codes.csv"), ("check", "codes.twoway", "--data", "codes.csv")):
        code, _, err = cli(*command)
        assert code == 0, err
    assert cli("update", "codes.twoway", "codes.csv", "-o", "more.twoway", "--force")[0] == 0
    assert cli("count", "codes.csv", "-o", "codes.tables", *options[:5], "--force")[0] == 0
    assert cli("count", "codes.csv", "--add", "codes.tables")[0] == 0
    _, _, err = cli("fit", "codes.csv", "-o", "codes.twoway", "--missing", "incme=98", "--force")
    assert "no column 'incme'" in err
    assert "did you mean 'income'" in err
    only = ("--missing-only=-9", "--rank", "1", "--solver", "em", "--force")
    assert cli("fit", "codes.csv", "-o", "only.twoway", *only)[0] == 0
    assert tw.load(folder / "only.twoway").schema["vote"].categories == ("-", "NA", "no", "yes")


def test_a_record_meets_all_conditions(cli, folder):
    rows = pd.DataFrame({"a": [1, 2, 3, 4], "b": ["x", "x", "y", "y"]})
    rows.to_csv(folder / "where.csv", index=False)
    for given, expected in (
        (["a > 1 OR b = 'x' -- both", "a < 4"], 3),
        (["b = 'y'"], 2),
        (["a > 1", "a < 4", "b = 'x'"], 1),
    ):
        options = [part for condition in given for part in ("--where", condition)]
        code, out, err = cli("count", "where.csv", "-o", "where.tables", "--force", "--json", *options)
        assert code == 0, err
        assert json.loads(out)["records"] == expected


def test_one_of_a_kind_is_singular_and_small_numbers_are_not_zero(cli, tmp_path):
    (tmp_path / "vote_by_age.csv").write_text("age \\ vote,no,yes\nyoung,3000,1000\nold,1500,2500\n")
    out = str(tmp_path / "one.twoway")
    _, text, _ = cli("fit", "--tables", str(tmp_path), "-o", out)
    assert "learned from  1 table\n" in text
    assert "total variation < 0.0005\n" in text
    (tmp_path / "one.csv").write_text("vote,age\nyes,old\n")
    (tmp_path / "hole.csv").write_text("vote,age\nyes,\n")
    assert cli("count", str(tmp_path / "one.csv"), "-o", str(tmp_path / "one.tables"))[1].startswith(
        "1 record counted: 1 table of 2 variables in "
    )
    filled = cli("impute", out, str(tmp_path / "hole.csv"), "-o", str(tmp_path / "filled.csv"))[1]
    assert filled.startswith("1 missing cell in 1 record filled: ")
    assert cli("info", str(tmp_path / "one.csv"))[1].startswith("1 record of 2 variables\n")


def test_evidence_that_no_table_counts_is_noted():
    counts = pd.DataFrame({"no": [55, 61, 0], "yes": [91, 92, 0]}, index=["female", "male", "diverse"])
    pmf = tw.fit(tw.Tables.from_crosstabs({("sex", "car"): counts}, kind="counts"))
    notes = {sex: printed_answer(pmf, f"P(car | sex = {sex})")[0]["notes"] for sex in ("male", "diverse")}
    assert notes["male"] == []
    assert any("rests on the model" in note for note in notes["diverse"])
