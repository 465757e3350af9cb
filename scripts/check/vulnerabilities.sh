#!/usr/bin/env bash
# Asks Go's vulnerability database for what gpuprof calls, and fails on what is
# called: a vulnerability in a package that is linked and not called is printed.
# Where the database cannot be reached it says so and passes: nothing was checked.
#
#   vulnerabilities.sh GOVULNCHECK [PATTERN…]   the program, and packages (./...)
#   GOVULNDB=https://vuln.go.dev                the database; file:///folder works too
set -euo pipefail

checker=$(realpath "$1")
shift
if [ "$#" -eq 0 ]; then
  cd "$(dirname "${BASH_SOURCE[0]}")/../.."
  set -- ./...
fi
GOVULNDB=${GOVULNDB:-https://vuln.go.dev}

# reach: the database answers, or the reason why not on standard output.
reach() {
  python3 - "$GOVULNDB" <<'END'
import sys, urllib.request
try:
    urllib.request.urlopen(sys.argv[1].rstrip("/") + "/index/db.json", timeout=20).read()
except Exception as e:  # whatever it is, it is the reason
    print(e)
    sys.exit(1)
END
}

for try in 1 2 3; do
  if ! why=$(reach); then
    if [ "$try" -lt 3 ]; then
      sleep "${PAUSE:-5}"
      continue
    fi
    echo "vulnerabilities: NOT CHECKED: the database $GOVULNDB cannot be reached from here ($why); run make vulnerabilities where it can"
    exit 0
  fi
  status=0
  "$checker" -db "$GOVULNDB" "$@" || status=$?
  case $status in
    0)
      echo 'vulnerabilities: none that is called'
      exit 0
      ;;
    3)
      echo 'vulnerabilities: code that gpuprof calls is affected, see above; update the module or Go to the version that is named there' >&2
      exit 1
      ;;
  esac
  echo "vulnerabilities: attempt $try of 3 failed with exit code $status" >&2
  if [ "$try" -lt 3 ]; then sleep "${PAUSE:-5}"; fi
done
echo "vulnerabilities: the check itself failed three times, see above" >&2
exit 1
