# What the scripts of the cases share. ROOT is the node's root, CASE the folder of the case, IMDS the metadata service.

# Runs kilnd on the root and prints what it says and how it ended; its journal goes where `journal` finds it.
kilnd() {
    echo "\$ kilnd $*"
    ending=0
    "$KILND" --root "$ROOT" --imds "$IMDS" --wire-server http://127.0.0.1:1 --dmi "$ROOT/dmi" --cd "$ROOT/cd" \
        --credentials "$ROOT/credentials" --time-scale 1000 "$@" 2>"$ROOT/.journal" || ending=$?
    [ $ending -eq 0 ] || grep '^kilnd: ' "$ROOT/.journal" || :
    echo "[$ending]"
}

# The journal of the last kilnd.
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
            echo "== $path is not there"
        fi
    done
}

# Prints what is below a folder of the root: kind, mode, size, path.
tree() {
    [ -d "$ROOT$1" ] || { echo "== $1 is not there"; return 0; }
    (cd "$ROOT$1" && find . -mindepth 1 ! -name .journal \( -type d -printf 'd %m %P\n' -o -type l -printf 'l 777 %P -> %l\n' -o -printf 'f %m %P\n' \) | LC_ALL=C sort -k3)
}

# Puts text into a file of the root.
put() {
    mkdir -p "$(dirname "$ROOT$1")"
    cat >"$ROOT$1"
}

# The machine: its id, as the firmware gives it.
machine() {
    mkdir -p "$ROOT/dmi"
    echo "$1" >"$ROOT/dmi/product_uuid"
}

# Another start of the machine: what is in memory is gone.
restart() {
    rm -rf "$ROOT/run"
}

# What `kilnd watch` does when it saw the node healthy: the generation on trial is there to stay.
confirm() {
    { echo '{"committed":'; sed -n '/"generation": {/,/}/p' "$ROOT/var/lib/kiln/state.json" | sed 's/"generation": //; s/},$/}/'; echo '}'; } \
        >"$ROOT/.state"
    mv "$ROOT/.state" "$ROOT/var/lib/kiln/state.json"
}
