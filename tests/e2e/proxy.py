"""A TCP proxy that a test can slow down, or cut: then it goes on accepting, and nothing comes through."""

import collections
import contextlib
import selectors
import socket
import threading
import time


class Proxy:
    def __init__(self, port):
        self.delay = 0.0  # seconds, of what comes from the server
        self._port = port
        self._cut = False
        self._late = collections.deque()  # (when, target, data)
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, waker = socket.socketpair()
        self._selector.register(waker, selectors.EVENT_READ)
        self._sockets = [self._listener, self._wake, waker]
        self._clients = set()
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, args=(waker,), daemon=True)
        self._thread.start()

    def cut(self):
        self._cut = True

    def close(self):
        self._wake.send(b"x")
        self._thread.join()
        for one in self._sockets:
            one.close()

    def _run(self, waker):
        while True:
            for key, _ in self._selector.select(self._deliver()):
                if key.fileobj is waker:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._forward(key.fileobj, key.data)

    def _deliver(self):
        """Sends what is due. Seconds until the next one is, None if there is none."""
        while self._late:
            when, target, data = self._late[0]
            if (left := when - time.monotonic()) > 0:
                return left
            self._late.popleft()
            self._send(target, data)
        return None

    def _send(self, target, data):
        if not self._cut:
            with contextlib.suppress(OSError):
                target.sendall(data)

    def _accept(self):
        client, _ = self._listener.accept()
        server = socket.create_connection(("127.0.0.1", self._port))
        self._clients.add(client)
        self._sockets += [client, server]
        self._selector.register(client, selectors.EVENT_READ, server)
        self._selector.register(server, selectors.EVENT_READ, client)

    def _forward(self, source, target):
        data = b""
        with contextlib.suppress(OSError):
            data = source.recv(65536)
        if not data:
            self._selector.unregister(source)
            if not self._cut:
                with contextlib.suppress(OSError):
                    target.shutdown(socket.SHUT_WR)
        elif target in self._clients and (self.delay or self._late):
            self._late.append((time.monotonic() + self.delay, target, data))
        else:
            self._send(target, data)
