#!/bin/sh
# The step of action.yml: inputs are environment, the output goes to GITHUB_OUTPUT, the plan to GITHUB_STEP_SUMMARY.
set -u

fail() {
  echo "::error::$1"
  exit 1
}

command -v smctl >/dev/null || npm install --global -- "$INPUT_PACKAGE" || fail "smctl cannot be installed"

case $INPUT_COMMAND in
  validate) set -- validate ;;
  # Somebody has reviewed the plan of the pull request: nobody can be asked here.
  apply) set -- apply --yes --markdown ;;
  plan) set -- plan --markdown ;;
  *) fail "command must be validate, plan or apply" ;;
esac
if [ "$INPUT_COMMAND" != validate ]; then
  case $INPUT_PRUNE in
    true) set -- "$@" --prune ;;
    false | "") ;;
    *) fail "prune must be true or false" ;;
  esac
  [ -z "$INPUT_MAX_DELETE" ] || set -- "$@" --max-delete "$INPUT_MAX_DELETE"
fi
# A name that begins with - is a file all the same.
set -- "$@" --
while IFS= read -r file; do
  [ -z "$file" ] || set -- "$@" "$file"
done <<END
$INPUT_FILES
END

plan=$(mktemp)
trap 'rm -f "$plan"' EXIT
smctl "$@" >"$plan"
code=$?
cat "$plan"
[ ! -s "$plan" ] || [ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$plan" >>"$GITHUB_STEP_SUMMARY"

changes=false
if [ "$code" = 2 ] || { [ "$code" = 0 ] && grep -q "^Applied:" "$plan"; }; then changes=true; fi
[ -z "${GITHUB_OUTPUT:-}" ] || echo "changes=$changes" >>"$GITHUB_OUTPUT"
# Differences are what a plan is for.
[ "$code" = 2 ] && exit 0
[ "$code" = 3 ] && echo "::error::The configuration was changed between plan and apply. Run the job again."
exit "$code"
