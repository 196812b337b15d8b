"""Each promise of the reliability page has tests that try to break it, and those tests exist."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, page

TESTS = {
    1: (
        "tests/faults/test_kills.py::test_a_killed_run_ends_as_if_it_had_not_been_killed",
        "tests/faults/test_handoff_kills.py::test_every_policy_is_killed_at_twenty_points_at_least",
        "tests/faults/test_kills.py::test_those_who_go_on_may_be_killed_too",
        "tests/faults/test_ask_kills.py::test_killed_while_others_are_asked_it_ends_as_if_it_had_not_been_killed",
        "tests/faults/test_bus_kills.py::test_wherever_whoever_serves_is_killed_each_effect_is_there_once",
        "tests/faults/test_state_kills.py::test_state_at_every_step_fits_the_events_after_a_kill",
        "tests/unit/collaboration/test_processes.py::test_what_a_killed_process_had_begun_is_finished_once",
    ),
    2: (
        "tests/faults/test_handoff_kills.py::test_a_handoff_is_wholly_made_or_wholly_undone_whenever_the_process_is_killed",
        "tests/faults/test_request_kills.py::test_a_session_that_became_free_is_handed_over_wholly_or_not_at_all",
    ),
    3: (
        "tests/faults/test_kills.py::test_a_killed_run_ends_as_if_it_had_not_been_killed",
        "tests/faults/test_workers.py::test_two_processes_do_every_session_once",
    ),
    4: (
        "tests/faults/test_stops.py::test_a_process_that_wakes_after_a_takeover_is_refused",
        "tests/faults/test_stops.py::test_a_process_that_wakes_after_its_lease_is_refused_even_if_nobody_took_over",
        "tests/faults/test_family_stops.py::test_a_process_that_wakes_after_a_takeover_changes_nothing",
        "tests/faults/test_bus_kills.py::test_the_answer_of_one_who_slept_beyond_its_time_does_not_count",
        "tests/faults/test_network_cuts.py::test_while_a_worker_is_cut_off_another_takes_over_and_the_first_is_refused",
    ),
    5: (
        "tests/faults/test_bus_mischief.py::test_whatever_the_queue_does_there_is_one_answer_and_one_effect",
        "tests/faults/test_bus_kills.py::test_the_answer_to_a_killed_asker_is_there_when_it_asks_again",
        "tests/faults/test_network_cuts.py::test_a_run_ends_right_whatever_is_lost_on_the_way",
    ),
    6: (
        "tests/faults/test_two_approvers.py::test_of_two_who_answer_in_the_same_moment_one_wins_and_the_other_is_told",
        "tests/faults/test_ask_people.py::test_an_answer_is_applied_once_whoever_dies_with_it_in_hand",
        "tests/faults/test_ask_people.py::test_a_yes_is_never_applied_to_other_arguments",
        "tests/faults/test_inbox_processes.py::test_a_process_killed_while_answering_leaves_each_item_open_or_answered",
    ),
    7: (
        "tests/faults/test_clock_jumps.py::test_workers_whose_clocks_jump_take_nothing_from_each_other",
        "tests/faults/test_clock_jumps.py::test_a_deadline_comes_when_it_is_due_and_not_before",
        "tests/faults/test_clock_jumps.py::test_a_message_is_not_too_old_because_a_clock_was_set",
        "tests/faults/test_clock_jumps.py::test_a_request_is_not_late_because_a_clock_was_set",
        "tests/faults/test_clock_jumps.py::test_when_the_databases_own_clock_jumps_every_session_still_has_one_owner",
    ),
    8: (
        "tests/faults/test_full_disks.py::test_workers_on_one_file_go_on_when_there_is_room_again",
        "tests/faults/test_full_disks.py::test_workers_on_postgres_go_on_when_there_is_room_again",
        "tests/faults/test_bad_disks.py::test_a_run_survives_a_disk_that_fails_at_any_moment",
        "tests/faults/test_database_restarts.py::test_workers_and_submitters_go_on_though_the_database_dies_again_and_again",
        "tests/faults/test_database_restarts.py::test_the_http_server_says_503_with_retry_after_and_recovers",
    ),
    9: (
        "tests/faults/test_overload.py::test_a_flood_is_told_to_come_again_and_memory_has_a_bound",
        "tests/unit/server/test_gate.py::test_too_many_requests_of_a_key_are_told_when_to_come_again",
        "tests/unit/project/test_service_runs.py::test_who_begins_when_too_many_wait_is_told_to_come_again",
    ),
    10: (
        "tests/faults/test_simulated_seeds.py::test_every_promise_is_kept",
        "tests/unit/testing/simulation/test_determinism.py::test_a_seed_gives_the_same_trace_again_whatever_ran_before",
    ),
}
"""By the number of a promise: the tests that try to break it."""

_ROW = re.compile(r"^\| (\d+)\. [^|]+ \| ([^|]+) \|$", re.MULTILINE)
_ROWS = {int(number): cell for number, cell in _ROW.findall(page("reliability.md").text)}


def test_the_page_names_the_files_of_every_promise() -> None:
    named = {number: re.findall(r"`(tests/[\w/]+\.py)`", cell) for number, cell in _ROWS.items()}
    assert named == {
        number: list(dict.fromkeys(test.partition("::")[0] for test in tests))
        for number, tests in TESTS.items()
    }


def test_the_tests_of_every_promise_exist() -> None:
    for test in {test for tests in TESTS.values() for test in tests}:
        file, _, name = test.partition("::")
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.M), test
