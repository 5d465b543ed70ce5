#!/usr/bin/env bash
# Lints and tests assay-client, and tests third-party clients from PyPI; each
# test starts its own service. TRAINERS=1 adds TRL, verl, OpenRLHF, and assay proxy
# in front of transformers serve, which download several gigabytes. ASSAY_BIN is the binary (default bin/assay).
set -euo pipefail

cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
ASSAY_BIN=$(realpath "${ASSAY_BIN:-$root/bin/assay}")
export ASSAY_BIN

# venv NAME PIP-ARGUMENTS... creates $root/bin/venv/NAME and sets $python to its Python.
venv() {
	local home=$root/bin/venv/$1
	python=$home/bin/python
	[ -x "$python" ] || python3 -m venv "$home"
	"$python" -m pip install -q "${@:2}"
}

# run FILE... runs each file in its own process: some packages cannot be imported together.
run() {
	for file in "$@"; do
		"$python" -m pytest -q "$file" || [ $? -eq 5 ] # 5: no tests were collected
	done
}

venv dev -e '.[dev]'
make --no-print-directory lint PYTHON="$python"
run tests/test_*.py

venv clients -r tests/real/requirements.txt -e .
run tests/real/test_{huggingface,kserve,natspy,openai,pytriton,triton}.py

venv gateways -r tests/real/requirements-gateways.txt -e .
run tests/real/test_{litellm,envoy}.py

if [ -n "${TRAINERS:-}" ]; then
	venv trainers -r tests/real/requirements-trainers.txt -e .
	venv trainers --no-deps verl==0.9.1 openrlhf==0.11.2
	run tests/real/test_{trl,trl_early_stopping,verl_reward_loop,verl_early_stopping,openrlhf}.py

	venv proxy -r tests/real/requirements-proxy.txt
	run tests/real/test_proxy.py
fi
