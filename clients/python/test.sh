#!/usr/bin/env bash
# Tests assay-client and the clients of other projects, from PyPI, against
# services of their own. TRAINERS=1 adds TRL, verl and OpenRLHF (torch: several
# gigabytes). ASSAY_BIN names the binary (default bin/assay).
set -euo pipefail

cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
ASSAY_BIN=$(realpath "${ASSAY_BIN:-$root/bin/assay}")
export ASSAY_BIN

# venv NAME PIP-ARGUMENTS...: makes $root/bin/venv/NAME, whose Python is then $python.
venv() {
	local home=$root/bin/venv/$1
	python=$home/bin/python
	[ -x "$python" ] || python3 -m venv "$home"
	"$python" -m pip install -q "${@:2}"
}

# run FILE...: each in a process of its own; some packages cannot be imported beside each other.
run() {
	for file in "$@"; do
		"$python" -m pytest -q "$file" || [ $? -eq 5 ] # 5: all of it was skipped
	done
}

venv dev -e '.[dev]'
run tests/test_*.py

venv clients -r tests/real/requirements.txt -e .
run tests/real/test_{huggingface,kserve,natspy,openai,pytriton,triton}.py

if [ -n "${TRAINERS:-}" ]; then
	venv trainers -r tests/real/requirements-trainers.txt -e .
	venv trainers --no-deps verl==0.9.1 openrlhf==0.11.2
	run tests/real/test_{trl,verl_reward_loop,openrlhf}.py
fi
