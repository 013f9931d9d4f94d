# Functions for the scripts of the cases. ROOT is the root folder of the node, CASE the folder of the case, IMDS the URL of the metadata service.

# Runs kilnd on the root and prints its output, errors, hints and exit code. `journal` prints its whole log.
kilnd() {
    echo "\$ kilnd $*"
    code=0
    "$KILND" --root "$ROOT" --imds "$IMDS" --wire-server http://127.0.0.1:1 --dmi "$ROOT/dmi" --cd "$ROOT/cd" \
        --credentials "$ROOT/credentials" --time-scale 1000 "$@" 2>"$ROOT/.journal" || code=$?
    [ $code -eq 0 ] || grep -E '^(error|hint): ' "$ROOT/.journal" || :
    echo "[$code]"
}

# Prints the log of the last kilnd.
journal() {
    cat "$ROOT/.journal"
}

# Prints a file of the root, with its mode.
show() {
    for path; do
        if [ -e "$ROOT$path" ]; then
            echo "== $path $(stat -c '%a' "$ROOT$path")"
            cat "$ROOT$path"
        else
            echo "== $path does not exist"
        fi
    done
}

# Lists a folder of the root: type, mode, path.
tree() {
    [ -d "$ROOT$1" ] || { echo "== $1 does not exist"; return 0; }
    (cd "$ROOT$1" && find . -mindepth 1 ! -name .journal \( -type d -printf 'd %m %P\n' -o -type l -printf 'l 777 %P -> %l\n' -o -printf 'f %m %P\n' \) | LC_ALL=C sort -k3)
}

# Writes standard input to a file of the root.
put() {
    mkdir -p "$(dirname "$ROOT$1")"
    cat >"$ROOT$1"
}

# Sets the VM id in DMI.
machine() {
    mkdir -p "$ROOT/dmi"
    echo "$1" >"$ROOT/dmi/product_uuid"
}

# Simulates a reboot: /run is empty.
restart() {
    rm -rf "$ROOT/run"
}

# Commits the generation on trial, like `kilnd watch` on a healthy node.
commit() {
    { echo '{"committed":'; sed -n '/"generation": {/,/}/p' "$ROOT/var/lib/kiln/state.json" | sed 's/"generation": //; s/},$/}/'; echo '}'; } \
        >"$ROOT/.state"
    mv "$ROOT/.state" "$ROOT/var/lib/kiln/state.json"
}
