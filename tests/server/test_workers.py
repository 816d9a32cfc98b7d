"""Which threads of the server go first."""

import subprocess
import sys

import pytest

from keras_attention.server.workers import NICER

pytestmark = pytest.mark.slow


@pytest.mark.skipif(sys.platform != "linux", reason="a priority is of the whole process")
def test_python_work_runs_before_computing_threads():
    """In a process of its own, for a priority cannot be taken back; TensorFlow brings threads without Python."""
    code = """
import os, threading
import tensorflow as tf
from keras_attention.server.workers import let_python_go_first
def priorities():
    return {int(name): os.getpriority(os.PRIO_PROCESS, int(name)) for name in os.listdir("/proc/self/task")}
other = threading.Thread(target=threading.Event().wait, daemon=True)
other.start()
tf.function(lambda x: x @ x)(tf.ones((300, 300)))
before = priorities()
let_python_go_first()
after = priorities()
python = {thread.native_id for thread in threading.enumerate()}
assert len(python) >= 2 and before.keys() - python
print({after[thread] - before[thread] for thread in before if thread in python and thread in after})
print({after[thread] - before[thread] for thread in before if thread not in python and thread in after})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["{0}", f"{{{NICER}}}"]
