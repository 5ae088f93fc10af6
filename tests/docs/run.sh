#!/usr/bin/env bash
# The documents name only what is there, no code stands twice, drawings and tables are those of their scripts, and what
# checks this notices when it is not so. Needs python3 alone.
set -euo pipefail
cd "$(dirname "$0")"
python3 check_test.py
python3 check_names.py
python3 find_twins.py
python3 ../../docs/draw_chunk.py --check
python3 draw_table_test.py
python3 ../bench/draw_table.py --check
python3 ../bench/draw_composition.py --check
