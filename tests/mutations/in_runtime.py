"""Defects in the runtime, the inbox, the audit and the outbox."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_KILLS = "tests/faults/test_kills.py"
_HANDOFF_KILLS = "tests/faults/test_handoff_kills.py"
_ASK_KILLS = "tests/faults/test_ask_kills.py"
_INLINE = "tests/contract/test_inline_engine.py"

IN_RUNTIME = (
    Mutation(
        name="withdrawn-approval-forgotten",
        area="inbox",
        file="runtime/tools/unfinished_calls.py",
        text="        return _WITHDRAWN\n",
        replacement="        return None\n",
        why="a call that waited for its approval is told as one that may have had an effect",
        tests=("tests/unit/runtime/asking/test_asking_people.py", "-k", "reported_as_not_run"),
    ),
    Mutation(
        name="conclusion-without-a-persons-no",
        area="conclusion",
        file="sessions/conclusion.py",
        text="    if _is_refused(signs):\n",
        replacement="    if False:\n",
        why="a payment that a person refused is listed as one with errors",
        tests=(_INLINE, "-k", "after_a_rejection"),
    ),
    Mutation(
        name="conclusion-without-failed-calls",
        area="conclusion",
        file="sessions/conclusion.py",
        text='    return "with_errors" if _left_failed(events) else "succeeded"\n',
        replacement='    return "succeeded"\n',
        why="a refund that failed at its gateway is listed as one that succeeded",
        tests=(_INLINE, "-k", "with_errors"),
    ),
    Mutation(
        name="memo-of-tools-not-read",
        area="memo",
        file="runtime/state/state.py",
        text="for key, result in steps.items() if key.startswith(prefix)}",
        replacement='for key, result in steps.items() if key.startswith("?")}',
        why="tools whose results are stored are called again after a restart",
        tests=("tests/unit/runtime/test_sessions_and_resuming.py",),
    ),
    Mutation(
        name="memo-of-code-not-read",
        area="memo",
        file="runtime/state/state.py",
        text='if event.step and event.step.startswith(f"{prefix}c")',
        replacement='if event.step and event.step.startswith(f"{prefix}?")',
        why="calls of an agent that is code are made again though their results are stored",
        tests=("tests/unit/runtime/test_code_agents.py",),
    ),
    Mutation(
        name="key-changes-with-the-owner",
        area="idempotency",
        file="runtime/tools/run_tools.py",
        text='idempotency_key=f"{run.session_key}:{key}"',
        replacement='idempotency_key=f"{run.session_key}:{run.claim.epoch}:{key}"',
        why="a tool that was in flight is called again under another key: the effect is doubled",
        tests=("tests/unit/runtime/test_sessions_and_resuming.py",),
    ),
    Mutation(
        name="key-for-another-effect",
        area="idempotency",
        file="runtime/tools/unfinished_calls.py",
        text="        await run.commit_step(key, [tool.name, arguments, tool_signature(tool)])\n",
        replacement="",
        why="code that calls something else after a crash sends the old key with a new effect",
        tests=("tests/unit/runtime/test_changed_calls.py",),
    ),
    Mutation(
        name="effect-denied-after-a-deployment",
        area="unknown",
        file="runtime/turn.py",
        text="    if not is_finished and not may_have_run(run, index, call, offer):\n",
        replacement="    if not is_finished:\n",
        why="a model is told that a payment was not made, and pays again",
        tests=("tests/unit/runtime/test_unknown_effects.py", "-k", "waits_for_a_person"),
    ),
    Mutation(
        name="changed-call-repeated",
        area="unknown",
        file="runtime/tools/unfinished_calls.py",
        text=(
            "is_same = accepts(offer, arguments) if version is None else"
            " version == tool_signature(offer)\n"
        ),
        replacement="is_same = True\n",
        why="a call is repeated with a tool that means something else",
        tests=("tests/unit/runtime/test_unknown_effects.py", "-k", "waits_for_a_person"),
    ),
    Mutation(
        name="tool-starts-over-an-unknown-effect",
        area="unknown",
        file="runtime/tools/run_tools.py",
        text="            if earlier.tool == tool.name:\n",
        replacement="            if earlier.tool != earlier.tool:\n",
        why="a tool pays again before anyone knows whether it has paid",
        tests=("tests/faults/test_simulated_seeds.py", "-k", "[0]"),
    ),
    Mutation(
        name="key-of-a-compensation-changes",
        area="idempotency",
        file="runtime/handoff/rollback.py",
        text='idempotency_key=f"{pending.id}:{run.created_at_us:x}:{each.key}"',
        replacement='idempotency_key=f"{pending.id}:{run.claim.epoch}:{each.key}"',
        why="a compensation that was in flight is made again under another key",
        tests=(_HANDOFF_KILLS, "-k", "sqlite-immediate-handoff.compensation"),
    ),
    Mutation(
        name="handoff-in-two-transactions",
        area="handoff",
        file="runtime/handoff/controller.py",
        text='    fault_point("handoff.transferring.before_commit")\n',
        replacement=(
            "    pending = run.cursor.handoffs.open[-1]\n"
            "    target, run.agent = run.agent, run.find_agent(pending.source)\n"
            "    await run.commit()\n"
            "    run.agent = target\n"
            '    fault_point("handoff.transferring.before_commit")\n'
        ),
        why="killed in between, the log has a handoff that the session's row does not know of",
        tests=(_KILLS, "-k", "sqlite-relay-handoff.transferring"),
    ),
    Mutation(
        name="rollback-keeps-the-target",
        area="rollback",
        file="runtime/handoff/rollback.py",
        text="    run.agent = run.find_agent(pending.source)\n",
        replacement="    run.agent = run.find_agent(pending.target)\n",
        why="the agent that failed has the conversation still",
        tests=("tests/unit/runtime/test_compensation.py",),
    ),
    Mutation(
        name="rollback-keeps-the-variables",
        area="rollback",
        file="runtime/handoff/rollback.py",
        text="        run.variables.restore(stored)\n",
        replacement="        assert stored\n",
        why="what the target set is there though its handoff was undone",
        tests=("tests/unit/runtime/test_compensation.py",),
    ),
    Mutation(
        name="rollback-reuses-the-turn",
        area="rollback",
        file="runtime/state/cursor.py",
        text="        self.progress.next_agent(started=True)\n",
        replacement=(
            "        self.progress.next_agent(started=True)\n        self.progress.turn -= 1\n"
        ),
        why="what the target did under its keys passes for the source's own",
        tests=(_HANDOFF_KILLS, "-k", "sqlite-immediate-handoff"),
    ),
    Mutation(
        name="rollback-overtakes-a-thread",
        area="rollback",
        file="runtime/handoff/rollback.py",
        text="await unfinished_calls(run.session_key, run.config.rollback_wait_s)",
        replacement="[]",
        why="an effect comes after the compensation that was to undo it",
        tests=("tests/unit/runtime/test_rollback_waits.py", "-k", "in_a_thread"),
    ),
    Mutation(
        name="compensation-twice",
        area="rollback",
        file="runtime/handoff/rollback.py",
        text='        each.state = "done"\n',
        replacement='        each.state = "done" if each.attempts > 1 else "open"\n',
        why="an effect is undone twice",
        tests=("tests/unit/runtime/test_compensation.py",),
    ),
    Mutation(
        name="compensation-not-stored",
        area="rollback",
        file="runtime/handoff/rollback.py",
        text=('    fault_point("handoff.compensation.before_commit")\n    await run.commit()\n'),
        replacement='    fault_point("handoff.compensation.before_commit")\n',
        why="whoever goes on with a rollback undoes again what was undone",
        tests=("tests/unit/runtime/test_compensation.py",),
    ),
    Mutation(
        name="failed-step-moves-on",
        area="memo",
        file="runtime/state/commit.py",
        text="        self.cursor.discard(self._stored_cursor)\n",
        replacement="        assert self._stored_cursor is not None\n",
        why="after a step that failed the cursor stands where nothing is stored",
        tests=("tests/unit/runtime/test_sessions_and_resuming.py",),
    ),
    Mutation(
        name="lost-lease-goes-on",
        area="leases",
        file="runtime/state/leases.py",
        text="                    held.lose()\n",
        replacement="                    _log.debug(held)\n",
        why="who lost a session goes on with models and tools until its next commit",
        tests=("tests/unit/runtime/test_leases.py",),
    ),
    Mutation(
        name="reads-past-its-claim",
        area="leases",
        file="runtime/state/step_record.py",
        text="    if last > seq or (last < seq and not with_items):\n",
        replacement="    if last < seq and not with_items:\n",
        why="who was stopped between claiming and reading asks a model about what others did since",
        tests=("tests/unit/testing/simulation/test_found_takeovers.py",),
    ),
    Mutation(
        name="answer-in-its-own-transaction",
        area="settling",
        file="runtime/questions/answers.py",
        text=(
            "    run.side_writes.settles.append(MessageSettle(key=str(message_id), state=state,"
            " answer=answer))"
        ),
        replacement=(
            "    settle = MessageSettle(key=str(message_id), state=state, answer=answer)\n"
            "    run.side_writes.afterwards.append(partial(run.store.settle_messages, [settle]))"
        ),
        why="killed in between, the session that was asked is over and its answer is lost",
        tests=(
            _ASK_KILLS,
            "-k",
            "sqlite-asked-store.sqlite.after_commit",
            "-m",
            "slow or not slow",
        ),
    ),
    Mutation(
        name="decision-not-bound-to-arguments",
        area="inbox",
        file="runtime/tools/confirmation.py",
        text='    for key in _places(f"{step}.{_digest(call)}"):\n',
        replacement='    for key in _places(f"{step}.asked"):\n',
        why="a yes to one call is taken for a yes to another, with other arguments",
        tests=("tests/faults/test_ask_people.py", "-k", "never_applied and sqlite"),
    ),
    Mutation(
        name="decision-recalled-for-another-call",
        area="inbox",
        file="runtime/tools/confirmation.py",
        text='    if stored["of"] != [tool.name, _digest(call)]:\n',
        replacement='    if stored["of"][0] != tool.name:\n',
        why="a decision that is stored is applied to other arguments after a restart",
        tests=("tests/unit/runtime/test_confirmation.py",),
    ),
    Mutation(
        name="threads-act-for-nobody",
        area="inbox",
        file="core/started_by_agents.py",
        text='    _wrap(Thread, "start", _thread_start)\n',
        replacement="",
        why="a thread that a tool starts answers another agent's question as a person",
        tests=("tests/contract/test_inline_engine.py", "-k", "Memory and thread_of_a_tool"),
    ),
    Mutation(
        name="programs-act-for-nobody",
        area="inbox",
        file="core/started_by_agents.py",
        text='    _wrap(subprocess.Popen, "__init__", _start_program)\n',
        replacement="",
        why="a program that a tool starts answers another agent's question as a person",
        tests=("tests/contract/test_inline_engine.py", "-k", "Memory and program_of_a_tool"),
    ),
    Mutation(
        name="last-person-wins",
        area="inbox",
        file="inbox/items.py",
        text=(
            "        DocumentWrite(collection=OPEN, key=after.id, body=None,"
            " expected_version=before.version),\n"
            "        DocumentWrite(collection=DONE, key=after.id, body=body, expected_version=0),\n"
        ),
        replacement=(
            "        DocumentWrite(collection=OPEN, key=after.id, body=None),\n"
            "        DocumentWrite(collection=DONE, key=after.id, body=body),\n"
        ),
        why="of two people who answer at the same moment both are told that their answer counts",
        tests=("tests/unit/inbox/test_answering.py",),
    ),
    Mutation(
        name="answer-wakes-nobody",
        area="wakes",
        file="inbox/changes.py",
        text="        wakes=() if waiting is None else (waiting,),\n",
        replacement="        wakes=() if waiting is None else (),\n",
        why="a session waits for ever for an answer that was given",
        tests=("tests/unit/inbox/test_answering.py",),
    ),
    Mutation(
        name="suspends-over-what-it-has-not-seen",
        area="wakes",
        file="runtime/state/commit.py",
        text='            seen_wakes=self._wakes if status == "waiting" else None,\n',
        replacement="            seen_wakes=None,\n",
        why="an answer that comes while a run suspends wakes nobody",
        tests=("tests/unit/runtime/asking/test_always.py",),
    ),
    Mutation(
        name="chain-without-the-one-before",
        area="audit",
        file="storage/chain.py",
        text="        previous, event.session_id, event.seq,",
        replacement='        "", event.session_id, event.seq,',
        why="records can be taken out of the chain and nobody sees it",
        tests=("tests/unit/audit/test_chain.py",),
    ),
    Mutation(
        name="chain-without-what-was-said",
        area="audit",
        file="storage/chain.py",
        text="event.duration_us, details, event.items, event.error,",
        replacement="event.duration_us, details, event.error,",
        why="what an audited event carries can be changed and nobody sees it",
        tests=("tests/unit/audit/test_chain.py",),
    ),
    Mutation(
        name="outbox-forgets-first",
        area="outbox",
        file="memory/outbox.py",
        text=(
            "    if puts:\n"
            "        await store.put_messages(puts)\n"
            "    for message in messages:\n"
            "        await store.ack_message(message)\n"
        ),
        replacement=(
            "    for message in messages:\n"
            "        await store.ack_message(message)\n"
            "    if puts:\n"
            "        await store.put_messages(puts)\n"
        ),
        why="killed in between, a back end never learns of a change",
        tests=("tests/unit/memory/test_back_ends.py", "-k", "crash"),
    ),
    Mutation(
        name="rollback-keeps-what-the-handoff-brought",
        area="rollback",
        file="runtime/handoff/controller.py",
        text="    pending.seq = first\n",
        replacement="",
        why="items that came with a handoff stay in the conversation though it was undone",
        tests=("tests/unit/runtime/test_later_handoffs.py", "-k", "rollback_removes"),
    ),
    Mutation(
        name="no-record-while-approval-is-awaited",
        area="handoff",
        file="runtime/handoff/acceptance.py",
        text="            announce(run, attempt, data)\n",
        replacement="            attempt.life.fresh.clear()\n",
        why="a handoff that waits for a person cannot be found, and its first moves are lost",
        tests=("tests/unit/runtime/test_handoff_records.py", "-k", "approval"),
    ),
    Mutation(
        name="chain-begins-anew-with-each-handoff",
        area="handoff",
        file="runtime/state/cursor_handoffs.py",
        text="            following.chain = self.chain.copy()\n",
        replacement="            following.chain = [USER]\n",
        why="programs can hand a task to and fro for ever",
        tests=("tests/unit/runtime/test_later_handoffs.py", "-k", "counted_until"),
    ),
    Mutation(
        name="version-kept-after-a-change",
        area="versions",
        file="core/versions.py",
        text="    if known is not None and known[0] == made_of:\n",
        replacement="    if known is not None:\n",
        why="an agent that gets another tool or other instructions seems to be the same as before",
        tests=("tests/unit/core/test_versions.py",),
    ),
    Mutation(
        name="shared-request-parts-not-compared",
        area="versions",
        file="runtime/state/versions.py",
        text="        if shared is None or shared.made_of != made_of:\n",
        replacement="        if shared is None:\n",
        why="a model call is recorded with the tools or the format of an earlier one",
        tests=("tests/unit/runtime/test_recorded_requests.py",),
    ),
    Mutation(
        name="request-parts-of-others-deleted",
        area="versions",
        file="sessions/request_parts.py",
        text="    return bool(await store.list_documents(",
        replacement="    return False and bool(await store.list_documents(",
        why="the requests of all sessions of an agent are lost when one of them is deleted",
        tests=("tests/unit/runtime/test_recorded_requests.py", "-k", "goes_with or many_people"),
    ),
    Mutation(
        name="imported-request-parts-not-checked",
        area="versions",
        file="runtime/history/session_document.py",
        text="        if not is_shared_part(key, text):\n",
        replacement="        if not key:\n",
        why="an imported document replaces the instructions in the requests of other sessions",
        tests=("tests/unit/runtime/test_recorded_requests.py", "-k", "cannot_replace"),
    ),
    Mutation(
        name="approval-of-another-version",
        area="approvals",
        file="runtime/tools/confirmation.py",
        text="    if version is not None and version != tool_version(tool):\n",
        replacement="    if False:\n",
        why="an approved call runs another tool of the same name after a deploy",
        tests=("tests/unit/runtime/test_approved_versions.py",),
    ),
    Mutation(
        name="always-for-another-version",
        area="approvals",
        file="runtime/tools/confirmation.py",
        text="        if grant.version != tool_version(tool):\n",
        replacement="        if False:\n",
        why="a server changes what its tool does, and the tool runs unasked",
        tests=("tests/unit/runtime/test_approved_versions.py", "-k", "mcp"),
    ),
    Mutation(
        name="always-without-limits",
        area="approvals",
        file="runtime/tools/confirmation.py",
        text="    return grant.limits is None or is_within_limits(",
        replacement="    return True or is_within_limits(",
        why="an “always” for one call approves all arguments, which nobody saw",
        tests=("tests/unit/runtime/test_approved_versions.py", "-k", "chose"),
    ),
    Mutation(
        name="approval-never-expires",
        area="approvals",
        file="runtime/tools/confirmation.py",
        text='    return [] if answer is None else await _expired(run, answer["at_us"])\n',
        replacement="    return []\n",
        why="a call starts days after its approval",
        tests=("tests/unit/runtime/test_approved_versions.py", "-k", "late_start"),
    ),
)
