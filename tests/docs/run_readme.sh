#!/usr/bin/env bash
# Runs a Markdown file's commands as its reader would, and fails where one fails.
#
#   tests/docs/run_readme.sh [FILE]...      default: README.md
#
# What runs: each line that begins with "$ " in a ```console block that follows a line
# "<!-- run -->", blank lines between allowed; a line that ends in a backslash goes on in the next.
# Other lines of the block show output. "<!-- run exact -->" asks also that a command's output be
# the lines that follow it, "..." standing for any text.
#
# The commands of one file run one after another in a folder of links to the checkout's entries, so
# that runs/ and data/ begin empty and what they write there is gone afterwards.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
limit=${README_TIMEOUT:-900} # seconds for one command

# Prints each command as one line "EXACT<TAB>LINE<TAB>COMMAND", newlines inside as \001, followed by
# its expected output as lines "><TAB>TEXT".
commands() {
  awk '
    function flush() { if (command != "") print exact "\t" at "\t" command; command = "" }
    /^[ \t]*<!-- run( exact)? -->[ \t]*$/ { marked = 1; exact = ($0 ~ /exact/); next }
    !inside && marked && /^[ \t]*```console[ \t]*$/ { inside = 1; marked = 0; open = 0; next }
    !inside { if ($0 !~ /^[ \t]*$/) marked = 0; next }
    /^[ \t]*```[ \t]*$/ { flush(); inside = 0; next }
    open { sub(/^> /, ""); command = command "\001" $0; open = ($0 ~ /\\$/); if (!open) flush(); next }
    /^\$ / { at = FNR; command = substr($0, 3); open = ($0 ~ /\\$/); if (!open) flush(); next }
    { print ">\t" $0 }
    END { if (inside) { print "unclosed block" > "/dev/stderr"; exit 1 } }
  ' "$1"
}

sandbox() {
  local folder entry
  folder=$(mktemp -d)
  for entry in "$root"/* "$root"/.deps; do
    case ${entry##*/} in runs | data | '*') continue ;; esac
    ln -s "$entry" "$folder/"
  done
  echo "$folder"
}

# Whether text $1 is pattern $2, whose "..." stands for any text.
matches() {
  local pattern=$2 out=
  while [[ $pattern == *...* ]]; do
    out+=$(printf '%q' "${pattern%%...*}")'*'
    pattern=${pattern#*...}
  done
  if [[ -n $pattern ]]; then out+=$(printf '%q' "$pattern"); fi
  # shellcheck disable=SC2053  # a pattern on purpose
  [[ $1 == $out ]]
}

run_file() {
  local file=$1 folder exact at command expected count=0 bad=0 output status
  local -a lines
  mapfile -t lines < <(commands "$file")
  folder=$(sandbox)
  # shellcheck disable=SC2064  # the folder's name now
  trap "rm -rf '$folder'" RETURN
  export ESPALIER_SHARED=${ESPALIER_SHARED:-$(dirname "$root")/shared}
  local i=0
  while ((i < ${#lines[@]})); do
    if [[ ${lines[i]} == '>'* ]]; then
      i=$((i + 1))
      continue
    fi
    IFS=$'\t' read -r exact at command <<<"${lines[i]}"
    command=${command//$'\001'/$'\n'}
    i=$((i + 1))
    expected=
    while ((i < ${#lines[@]})) && [[ ${lines[i]} == '>'* ]]; do
      expected+=${lines[i]#>$'\t'}$'\n'
      i=$((i + 1))
    done
    count=$((count + 1))
    echo "$file:$at: $command"
    status=0
    output=$(cd "$folder" && timeout "$limit" bash -c "$command" 2>&1 </dev/null) || status=$?
    if ((status != 0)); then
      bad=$((bad + 1))
      printf '%s\n' "$output" | tail -n 60
      if ((status == 124)); then echo "took over $limit s"; fi
      echo "error: $file:$at: exit status $status: $command" >&2
    elif ((exact)) && ! matches "$output" "${expected%$'\n'}"; then
      bad=$((bad + 1))
      diff <(printf '%s\n' "$expected") <(printf '%s\n' "$output") || true
      echo "error: $file:$at: other output than the text shows: $command" >&2
    fi
  done
  if ((count == 0)); then
    echo "error: $file has no command marked <!-- run -->" >&2
    return 1
  fi
  echo "$file: $count commands, $bad failed"
  ((bad == 0))
}

(($#)) || set -- README.md
cd "$root"
status=0
for file; do
  if [[ ! -f $file ]]; then
    echo "error: no file '$file' in the checkout" >&2
    status=1
  elif ! run_file "$file"; then
    status=1
  fi
done
exit "$status"
