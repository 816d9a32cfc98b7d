"""`keras-attention push`: shares a model on the Hugging Face Hub."""

from keras_attention.cli.io.terminal import print_json, safe, silent_libraries
from keras_attention.support.errors import quoted
from keras_attention.zoo.registry import find_entry


def push(arguments):
    """Verifies a model, then pushes it with its card; prints the name that loads it."""
    find_entry(arguments.name)
    with silent_libraries():
        from keras_attention.publishing.hub_upload import checked_address, push_entry, write_token

    checked_address(arguments.address)
    write_token()  # before the model is loaded
    pushed = push_entry(arguments.name, arguments.address, arguments.public, arguments.licence)
    if arguments.json:
        print_json(pushed._asdict())
        return
    visible = "private" if pushed.private else "public"
    size = f"{pushed.files} files, {pushed.bytes / 1e6:.1f} MB, {visible}"
    print(safe(f"Pushed to {pushed.link} ({size})."))
    print(safe(f"Load it with keras_attention.load({quoted(arguments.address)}), this state with {pushed.name}"))
