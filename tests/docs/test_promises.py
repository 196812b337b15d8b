"""Each promise of the reliability page has tests that try to break it, and those tests exist."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, page

TESTS = {
    1: (
        "tests/faults/test_kills.py::test_a_killed_run_reaches_the_same_end",
        "tests/faults/test_handoff_kills.py::test_every_policy_is_killed_at_twenty_or_more_points",
        "tests/faults/test_kills.py::test_recovering_processes_may_be_killed",
        "tests/faults/test_ask_kills.py::test_a_run_killed_during_a_question_reaches_the_same_end",
        "tests/faults/test_bus_kills.py::test_a_service_killed_anywhere_leaves_each_effect_once",
        "tests/faults/test_state_kills.py::test_the_state_at_every_step_matches_the_events_after_a_kill",
        "tests/unit/collaboration/test_processes.py::test_an_execution_of_a_killed_process_is_finished_once",
    ),
    2: (
        "tests/faults/test_handoff_kills.py::test_a_handoff_is_complete_or_rolled_back_after_a_kill",
        "tests/faults/test_request_kills.py::test_a_handoff_of_a_session_just_released_is_atomic",
    ),
    3: (
        "tests/faults/test_kills.py::test_a_killed_run_reaches_the_same_end",
        "tests/faults/test_workers.py::test_two_processes_run_every_session_once",
    ),
    4: (
        "tests/faults/test_stops.py::test_a_process_that_wakes_after_a_takeover_is_refused",
        "tests/faults/test_stops.py::test_a_process_that_wakes_after_its_lease_is_refused_without_a_takeover",
        "tests/faults/test_family_stops.py::test_a_process_that_wakes_after_a_takeover_changes_nothing",
        "tests/faults/test_bus_kills.py::test_an_answer_of_a_process_that_slept_beyond_its_lease_does_not_count",
        "tests/faults/test_network_cuts.py::test_a_cut_off_worker_is_replaced_and_refused",
    ),
    5: (
        "tests/faults/test_bus_mischief.py::test_a_faulty_queue_yields_one_answer_and_one_effect",
        "tests/faults/test_bus_kills.py::test_a_killed_asker_gets_the_answer_when_it_asks_again",
        "tests/faults/test_network_cuts.py::test_a_run_reaches_the_right_end_despite_lost_network_packets",
    ),
    6: (
        "tests/faults/test_two_approvers.py::test_of_two_simultaneous_answers_one_wins_and_the_other_is_refused",
        "tests/faults/test_ask_people.py::test_an_answer_is_applied_once_despite_crashes",
        "tests/faults/test_ask_people.py::test_an_approval_is_never_applied_to_other_arguments",
        "tests/faults/test_inbox_processes.py::test_a_process_killed_while_answering_leaves_each_item_open_or_answered",
    ),
    7: (
        "tests/faults/test_clock_jumps.py::test_workers_with_jumping_clocks_keep_their_sessions",
        "tests/faults/test_clock_jumps.py::test_a_deadline_expires_on_time_despite_clock_jumps",
        "tests/faults/test_clock_jumps.py::test_a_message_does_not_expire_because_of_a_clock_jump",
        "tests/faults/test_clock_jumps.py::test_a_request_does_not_time_out_because_of_a_clock_jump",
        "tests/faults/test_clock_jumps.py::test_every_session_has_one_owner_despite_a_jump_of_the_database_clock",
    ),
    8: (
        "tests/faults/test_full_disks.py::test_workers_on_one_file_continue_when_the_disk_has_room_again",
        "tests/faults/test_full_disks.py::test_workers_on_postgres_continue_when_the_disk_has_room_again",
        "tests/faults/test_bad_disks.py::test_a_run_survives_a_disk_failure_at_any_moment",
        "tests/faults/test_database_restarts.py::test_workers_and_submitters_survive_repeated_database_crashes",
        "tests/faults/test_database_restarts.py::test_the_http_server_returns_503_with_retry_after_and_recovers",
    ),
    9: (
        "tests/faults/test_overload.py::test_a_flood_of_requests_gets_retry_after_within_bounded_memory",
        "tests/unit/server/test_gate.py::test_too_many_requests_of_a_key_get_retry_after",
        "tests/unit/project/test_service_runs.py::test_a_start_with_too_many_queued_runs_is_refused_with_retry_after",
    ),
    10: (
        "tests/faults/test_simulated_seeds.py::test_every_simulated_seed_keeps_every_promise",
        "tests/unit/testing/simulation/test_determinism.py::test_a_seed_gives_the_same_trace_whatever_ran_before",
    ),
}
"""By the number of a promise: the tests that try to break it."""

_ROW = re.compile(r"^\| (\d+)\. [^|]+ \| ([^|]+) \|$", re.MULTILINE)
_ROWS = {int(number): cell for number, cell in _ROW.findall(page("reliability.md").text)}


def test_the_page_names_the_test_files_of_every_promise() -> None:
    named = {number: re.findall(r"`(tests/[\w/]+\.py)`", cell) for number, cell in _ROWS.items()}
    assert named == {
        number: list(dict.fromkeys(test.partition("::")[0] for test in tests))
        for number, tests in TESTS.items()
    }


def test_the_tests_of_every_promise_exist() -> None:
    for test in {test for tests in TESTS.values() for test in tests}:
        file, _, name = test.partition("::")
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.M), test
