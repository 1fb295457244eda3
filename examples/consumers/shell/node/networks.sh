#!/bin/sh
# networks.sh FILE             Keeps FILE as the Config `networks` has allowed.txt: whole, or as it was.
# networks.sh --check FILE     Exit 1, and the lines that are no networks.
set -eu
NO_SUCH_FILE=4

check() {
    ! grep --line-number --invert-match --line-regexp --extended-regexp '#.*|([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}' "$1"
}

# Whatever keeps it from being read but that there is none any more: it stays.
take() {
    status=0
    holdfast get config/networks allowed.txt > "$1.new" || status=$?
    case $status in
        0) mv "$1.new" "$1" ;;
        "$NO_SUCH_FILE") rm -f "$1" "$1.new" ;;
    esac
}

case $1 in
    --check) check "$2" ;;
    *)
        # A line for what there is, and one for each change; it goes on while the agent is down.
        holdfast watch --after 0 config/networks | while read -r _; do take "$1"; done
        ;;
esac
