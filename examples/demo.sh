#!/bin/sh
# Ekiden in a few commands, without a model: `make demo` runs this with .venv/bin on the PATH.
set -eu
cd "$(dirname "$0")/.."
rm -rf .ekiden/demo
mkdir -p .ekiden/demo
export EKIDEN_STORE=.ekiden/demo/relay.db EKIDEN_TEAM=booking:team EKIDEN_ROUTING_STRATEGY=rule
export BOOKINGS=.ekiden/demo/bookings.txt PYTHONPATH="examples${PYTHONPATH:+:$PYTHONPATH}"

step() {
  printf '\n# %s\n$ %s\n' "$1" "$2"
  eval "$2"
}

echo "# The agents are in examples/booking.py, these commands in examples/demo.sh."

step "A request is routed to an agent, which hands it to another, which calls a tool and answers." \
  'ekiden run --stream --session first "@auto Book seat 4A to Kyoto"'

step "This handoff fails after the seat is booked. It is rolled back, and the seat is cancelled." \
  'ekiden run --stream --session second "@auto Book seat 4B to Kyoto, and a hotel"'

step "This tool has booked the seat and waits a minute for the confirmation ..." \
  'TRAIN_DELAY_S=60 python examples/booking.py third "Book seat 4C to Kyoto" &'
until grep -q 4C $BOOKINGS; do
  kill -0 $!
  sleep 0.1
done

step "... when kill -9 ends its process. The tool's result is not stored." \
  'kill -9 $!'
status=0
wait $! || status=$?
test $status = 137 # SIGKILL

step "Another process resumes the run. It calls the tool again, with the same idempotency key." \
  'ekiden session resume --stream third'

step "So each seat is booked once, and the one that was rolled back is cancelled." \
  'cat .ekiden/demo/bookings.txt'
test "$(wc -l < $BOOKINGS)" -eq 4

step "Every move is in the audit, as a chain of hashes. Verify that nothing in it was changed." \
  'ekiden audit verify'
