# cython: boundscheck=False, wraparound=False, cdivision=True
"""gRPC calls over one HTTP/2 connection, on libnghttp2 and a non-blocking socket.

Strategy: the session moves bytes between the socket and nghttp2 and cuts the DATA of
each stream into gRPC messages; it knows no event loop, no time and no reconnecting.
Its owner calls on_readable() and flush() when the socket is ready and then looks at
the streams that have news. nghttp2's parsing is trusted; its callbacks only copy.

Flow control: the connection's credit is returned at once, a stream's only when its
owner has passed the messages on, so that a reader that stalls holds up its own stream,
in bounded memory, and no other. A message that takes nearly half the window is credited
while it arrives, or it never would, once those before it have been taken.

A peer must never wait for credit while its stream has nothing left to take. Three parts
of a window can then be without credit: what nghttp2 gathers before it sends an update
(less than half), what was taken last (less than `little`, when a sink has taken it), and
the beginning of a message (half, less `little`). Together they are less than a window.

What a stream ends with is kept as facts (status line, trailers, reset code); what they
mean to gRPC is decided by the owner. Streams may end while their owner writes as well as
while it reads, so there may be news after flush(), too.

nghttp2 points at the streams: the session holds each until nghttp2 has closed it, and
abandon() ends nghttp2's session before it lets go of them.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy, memmove

from sglrouter._fast.nghttp2 cimport (
    nghttp2_data_provider,
    nghttp2_data_source,
    nghttp2_frame,
    nghttp2_http2_strerror,
    nghttp2_nv,
    nghttp2_option,
    nghttp2_option_del,
    nghttp2_option_new,
    nghttp2_option_set_no_auto_window_update,
    nghttp2_session,
    nghttp2_session_callbacks,
    nghttp2_session_callbacks_del,
    nghttp2_session_callbacks_new,
    nghttp2_session_callbacks_set_error_callback2,
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback,
    nghttp2_session_callbacks_set_on_frame_recv_callback,
    nghttp2_session_callbacks_set_on_frame_send_callback,
    nghttp2_session_callbacks_set_on_header_callback,
    nghttp2_session_callbacks_set_on_stream_close_callback,
    nghttp2_session_client_new2,
    nghttp2_session_consume_connection,
    nghttp2_session_consume_stream,
    nghttp2_session_del,
    nghttp2_session_get_remote_settings,
    nghttp2_session_get_stream_user_data,
    nghttp2_session_mem_recv,
    nghttp2_session_mem_send,
    nghttp2_session_set_local_window_size,
    nghttp2_session_terminate_session,
    nghttp2_session_want_write,
    nghttp2_settings_entry,
    nghttp2_strerror,
    nghttp2_submit_ping,
    nghttp2_submit_request,
    nghttp2_submit_rst_stream,
    nghttp2_submit_settings,
)

from sglrouter._fast.sink cimport Sink


cdef extern from "sys/types.h":
    ctypedef long ssize_t

cdef extern from "sys/socket.h" nogil:
    ssize_t c_recv "recv"(int, void*, size_t, int)
    ssize_t c_send "send"(int, const void*, size_t, int)
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL

cdef extern from "string.h" nogil:
    char* strerror(int)

cdef enum:
    DATA_FLAG_EOF = 0x01
    FLAG_END_STREAM = 0x01
    FLAG_ACK = 0x01
    FRAME_DATA = 0
    FRAME_HEADERS = 1
    FRAME_RST_STREAM = 3
    FRAME_SETTINGS = 4
    FRAME_PING = 6
    FRAME_GOAWAY = 7
    SETTINGS_ENABLE_PUSH = 2
    SETTINGS_MAX_CONCURRENT_STREAMS = 3
    SETTINGS_INITIAL_WINDOW_SIZE = 4
    SETTINGS_MAX_HEADER_LIST_SIZE = 6
    ERR_CALLBACK_FAILURE = -902
    ERR_TEMPORAL_CALLBACK_FAILURE = -521
    NO_ERROR = 0
    REFUSED_STREAM = 7
    CANCEL = 8
    READ_SIZE = 262144
    READS_AT_ONCE = 4
    # Bytes of messages whose credit can wait for the next ones.
    LITTLE = 16384
    PREFIX_SIZE = 5
    # More than any gRPC server sends: what is beyond is not kept.
    MOST_HEADERS = 64


# The response headers and trailers that mean something to gRPC.
cdef tuple KEPT = (
    b":status",
    b"content-type",
    b"grpc-encoding",
    b"grpc-message",
    b"grpc-status",
    b"grpc-status-details-bin",
)


def error_name(code: int) -> str:
    """The name of an HTTP/2 error code, with the code."""
    return f"{nghttp2_http2_strerror(code).decode()} ({code})"


class SessionError(Exception):
    """The connection cannot go on: the peer broke the protocol, or the socket failed."""


cdef class Stream:
    """One call: what has arrived of its answer.

    Attributes:
        id: The HTTP/2 stream's id; 0 until it is sent.
        headers: The headers and trailers that gRPC knows, by name; the later one wins.
        closed: Whether nothing more will come.
        reset_code: The HTTP/2 error code it was closed with; 0 for a good end.
        broken: What is wrong with the gRPC framing, or None.
        touched: Whether any part of an answer has arrived.
        begun: Whether its request has begun to be sent.
        sink: Gets the messages first, if there is one; what it takes is no news.
    """

    cdef Session session
    cdef bytes body
    cdef Py_ssize_t sent
    cdef list messages
    cdef uint8_t* partial        # a message that is not complete, with its prefix
    cdef Py_ssize_t length
    cdef Py_ssize_t capacity
    cdef Py_ssize_t waiting      # bytes of `messages`, prefixes included
    cdef Py_ssize_t taken        # bytes taken and not credited yet
    cdef Py_ssize_t owed         # bytes of `partial` not credited yet
    cdef Py_ssize_t header_count
    cdef bint dirty
    cdef bint sent_all
    cdef readonly int32_t id
    cdef readonly dict headers
    cdef readonly bint closed
    cdef readonly uint32_t reset_code
    cdef readonly str broken
    cdef readonly bint touched
    cdef readonly bint begun
    cdef public object owner
    cdef public Sink sink

    def __cinit__(self, bytes body not None, owner):
        self.body = body
        self.messages = []
        self.headers = {}
        self.owner = owner

    def __dealloc__(self):
        PyMem_Free(self.partial)

    cpdef list take(self):
        """Returns the messages that are complete, in order.

        What was taken before counts as passed on: its credit goes back to the peer with
        the session's next flush().
        """
        cdef list messages = self.messages
        cdef Py_ssize_t credit = self.taken
        self.taken = self.waiting
        self.waiting = 0
        if messages:
            self.messages = []
        if self.session is not None and self.owed > self.session.most_owed:
            credit += self.owed
            self.owed = 0
        if credit and not self.closed and self.session is not None:
            self.session._credit(self.id, credit)
        return messages

    cdef bint _drain(self) except -1:
        """Gives its messages to the sink; returns whether nobody else need know of them."""
        if self.closed or self.broken is not None:
            return False
        if self.messages:
            if not self.sink.accept(self.messages):
                return False
            self.take()
            # To take once more gives the credit back. That can wait for the next messages,
            # unless it is so much that the peer may wait for it, or for a client that does
            # not take what it is sent: who writes to it then takes again.
            if self.holds_back and self.sink.is_ready():
                self.take()
        return True

    cdef void forget_body(self) noexcept:
        """Lets go of the request, which is sent or never will be."""
        self.body = b""
        self.sent = 0

    @property
    def holds_back(self):
        """Whether so much was taken that the peer may wait for it to be passed on."""
        return self.session is not None and self.taken >= self.session.little

    @property
    def cut(self):
        """Whether the end came inside a message."""
        return self.length > 0

    cdef int _receive(self, const uint8_t* data, Py_ssize_t size) except -1:
        """Cuts arriving bytes into messages."""
        cdef Py_ssize_t need
        cdef Py_ssize_t part
        self.touched = True
        while size > 0:
            if self.length == 0 and size >= PREFIX_SIZE:
                need = self._message_size(data)
                if need < 0:
                    return 0
                if size >= need:
                    # The usual case: a whole message in one piece.
                    self.messages.append(
                        PyBytes_FromStringAndSize(
                            <const char*>data + PREFIX_SIZE, need - PREFIX_SIZE
                        )
                    )
                    self.waiting += need
                    data += need
                    size -= need
                    continue
            need = PREFIX_SIZE
            if self.length >= PREFIX_SIZE:
                need = self._message_size(self.partial)
            part = min(size, need - self.length)
            self._keep(data, part, need)
            data += part
            size -= part
            self.owed += part
            if self.length == PREFIX_SIZE and self._message_size(self.partial) < 0:
                return 0
            if self.length >= PREFIX_SIZE and self.length == self._message_size(self.partial):
                self.messages.append(
                    PyBytes_FromStringAndSize(
                        <const char*>self.partial + PREFIX_SIZE, self.length - PREFIX_SIZE
                    )
                )
                self.waiting += self.owed
                self.owed = 0
                self.length = 0
        # With others before it that nobody takes, it has to wait: a peer could go on for ever.
        if self.owed > self.session.most_owed and not self.messages:
            self.session._credit(self.id, self.owed)
            self.owed = 0
        return 0

    cdef Py_ssize_t _message_size(self, const uint8_t* prefix) except? -2:
        """Bytes of a message with its prefix; -1 if it cannot be accepted."""
        cdef Py_ssize_t size = (
            (<Py_ssize_t>prefix[1] << 24) | (prefix[2] << 16) | (prefix[3] << 8) | prefix[4]
        )
        if prefix[0] != 0:
            self.broken = "the message is compressed, which was not offered"
        elif size > self.session.max_message:
            self.broken = f"a message of {size} bytes is larger than {self.session.max_message}"
        else:
            return PREFIX_SIZE + size
        self.length = 0
        self.session._reset(self, CANCEL)
        return -1

    cdef int _keep(self, const uint8_t* data, Py_ssize_t size, Py_ssize_t need) except -1:
        cdef void* grown
        cdef Py_ssize_t wanted
        if self.length + size > self.capacity:
            # The size is a claim of the peer: grow with what really comes.
            wanted = min(need, max(2 * self.capacity, self.length + size, 1024))
            grown = PyMem_Realloc(self.partial, wanted)
            if grown == NULL:
                raise MemoryError()
            self.partial = <uint8_t*>grown
            self.capacity = wanted
        memcpy(self.partial + self.length, data, size)
        self.length += size
        return 0


cdef class Session:
    """The client's side of one HTTP/2 connection.

    Args:
        fd: A connected, non-blocking socket. The owner closes it, after close().
        authority: The :authority of every request.
        window: Credit of each stream in bytes.
        max_message: Longest gRPC message accepted.

    Attributes:
        active: Streams that are open or wait to be sent.
        goaway: (last stream id, error code, debug data) once the peer says that it is
            going; new calls need another connection.
        settled: Whether the peer's settings have arrived.
        pongs: How many pings have been answered.
        received, sent: Bytes read from and written to the socket.
    """

    cdef nghttp2_session* session
    cdef int fd
    cdef bytes authority
    cdef dict streams
    cdef list news
    cdef uint8_t* inbox
    cdef uint8_t* outbox
    cdef Py_ssize_t out_start
    cdef Py_ssize_t out_end
    cdef Py_ssize_t out_capacity
    cdef object failure
    cdef object remark           # what nghttp2 says about the peer's last fault
    cdef object complaint        # why nghttp2 has ended the session
    cdef Py_ssize_t little       # LITTLE, or less where the window is small
    cdef Py_ssize_t most_owed    # of a message's beginning, without credit
    cdef readonly Py_ssize_t window
    cdef readonly Py_ssize_t max_message
    cdef readonly object goaway
    cdef readonly bint settled
    cdef readonly Py_ssize_t pongs
    cdef readonly Py_ssize_t received
    cdef readonly Py_ssize_t sent

    def __cinit__(self, int fd, bytes authority not None, Py_ssize_t window, Py_ssize_t max_message):
        cdef nghttp2_session_callbacks* callbacks = NULL
        cdef nghttp2_option* option = NULL
        cdef nghttp2_settings_entry settings[3]
        self.fd = fd
        self.authority = authority
        self.window = window
        self.little = min(LITTLE, window // 16)
        self.most_owed = window // 2 - self.little
        self.max_message = max_message
        self.streams = {}
        self.news = []
        self.inbox = <uint8_t*>PyMem_Malloc(READ_SIZE)
        if self.inbox == NULL:
            raise MemoryError()
        if nghttp2_session_callbacks_new(&callbacks) or nghttp2_option_new(&option):
            nghttp2_session_callbacks_del(callbacks)
            raise MemoryError()
        nghttp2_session_callbacks_set_on_header_callback(callbacks, _on_header)
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, _on_data)
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, _on_frame)
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, _on_close)
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, _on_frame_sent)
        nghttp2_session_callbacks_set_error_callback2(callbacks, _on_error)
        nghttp2_option_set_no_auto_window_update(option, 1)
        failed = nghttp2_session_client_new2(&self.session, callbacks, <void*>self, option)
        nghttp2_session_callbacks_del(callbacks)
        nghttp2_option_del(option)
        if failed:
            raise MemoryError()
        settings[0].settings_id = SETTINGS_ENABLE_PUSH
        settings[0].value = 0
        settings[1].settings_id = SETTINGS_INITIAL_WINDOW_SIZE
        settings[1].value = <uint32_t>window
        settings[2].settings_id = SETTINGS_MAX_HEADER_LIST_SIZE
        settings[2].value = 65536
        nghttp2_submit_settings(self.session, 0, settings, 3)
        nghttp2_session_set_local_window_size(self.session, 0, 0, 0x7FFFFFFF)

    def __dealloc__(self):
        nghttp2_session_del(self.session)
        PyMem_Free(self.inbox)
        PyMem_Free(self.outbox)

    @property
    def active(self):
        return len(self.streams)

    @property
    def max_streams(self):
        """How many streams the peer allows at a time."""
        if self.session == NULL:
            return 0
        return nghttp2_session_get_remote_settings(self.session, SETTINGS_MAX_CONCURRENT_STREAMS)

    def open(self, bytes path not None, bytes message not None, list headers not None, owner):
        """Queues a call with one message; flush() sends it.

        Args:
            path: The method, b"/package.Service/Method".
            message: The serialized request.
            headers: Further request headers as (name, value) bytes, names in lower case.
            owner: Kept in the stream's `owner`.
        """
        cdef Py_ssize_t size = PyBytes_GET_SIZE(message)
        cdef list all_headers = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path),
            (b":authority", self.authority),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            *headers,
        ]
        cdef Stream stream = Stream(b"\0" + size.to_bytes(4, "big") + message, owner)
        cdef nghttp2_data_provider provider
        cdef nghttp2_nv* fields
        cdef bytes name
        cdef bytes value
        cdef Py_ssize_t i
        self._check_alive()
        fields = <nghttp2_nv*>PyMem_Malloc(len(all_headers) * sizeof(nghttp2_nv))
        if fields == NULL:
            raise MemoryError()
        try:
            for i in range(len(all_headers)):
                name, value = all_headers[i]
                fields[i].name = <uint8_t*>PyBytes_AS_STRING(name)
                fields[i].namelen = PyBytes_GET_SIZE(name)
                fields[i].value = <uint8_t*>PyBytes_AS_STRING(value)
                fields[i].valuelen = PyBytes_GET_SIZE(value)
                fields[i].flags = 0
            provider.source.ptr = <void*>stream
            provider.read_callback = _read_body
            stream.id = nghttp2_submit_request(
                self.session, NULL, fields, len(all_headers), &provider, <void*>stream
            )
        finally:
            PyMem_Free(fields)
        if stream.id < 0:
            raise SessionError(nghttp2_strerror(stream.id).decode())
        stream.session = self
        self.streams[stream.id] = stream
        return stream

    def cancel(self, Stream stream not None):
        """Tells the peer to stop a call; nothing more of it is reported."""
        if not stream.closed:
            self._reset(stream, CANCEL)
            stream.closed = True
            # It may have to wait behind others until nghttp2 lets go of it.
            stream.forget_body()

    def ping(self):
        """Queues a ping."""
        if self.session != NULL:
            nghttp2_submit_ping(self.session, 0, NULL)

    def close(self):
        """Queues a GOAWAY; the owner flushes, abandons the session and closes the socket."""
        if self.session != NULL:
            nghttp2_session_terminate_session(self.session, 0)

    def abandon(self):
        """Ends the session; returns the streams that had not ended.

        News that was not taken can still be. Nothing is read or written any more.
        """
        cdef Stream stream
        lost = [stream for stream in self.streams.values() if not stream.closed]
        nghttp2_session_del(self.session)
        self.session = NULL
        self.out_start = self.out_end = 0
        for stream in self.streams.values():
            stream.closed = True
            stream.session = None
            stream.forget_body()
        self.streams.clear()
        return lost

    def on_readable(self):
        """Reads what the socket has; returns the streams with news.

        Raises:
            SessionError: The peer has closed the connection or broken the protocol.
        """
        cdef ssize_t count
        cdef ssize_t used
        cdef int i
        for i in range(READS_AT_ONCE):
            self._check_alive()
            count = c_recv(self.fd, self.inbox, READ_SIZE, MSG_DONTWAIT)
            if count == 0:
                raise SessionError("the peer closed the connection")
            if count < 0:
                if errno == EINTR:
                    continue
                if errno == EAGAIN:
                    break
                raise SessionError(strerror(errno).decode("utf-8", "replace"))
            self.received += count
            self.remark = None
            used = nghttp2_session_mem_recv(self.session, self.inbox, count)
            if self.failure is not None:
                raise self.failure
            if used < 0:
                raise SessionError(nghttp2_strerror(<int>used).decode())
            if count < READ_SIZE:
                break
        return self.take_news()

    def take_news(self):
        """Returns the streams that something has happened to since the last call.

        What their sinks have taken is no news.
        """
        cdef Stream stream
        cdef list news = self.news
        cdef list left = []
        self.news = []
        for stream in news:
            stream.dirty = False
            if stream.sink is None or not stream._drain():
                left.append(stream)
        return left

    def flush(self):
        """Writes what there is to write; returns whether all of it is out.

        Raises:
            SessionError: The socket failed, the session was abandoned, or the peer broke
                the protocol and has been told so.
        """
        cdef const uint8_t* data
        cdef ssize_t size
        self._check_alive()
        while True:
            if self.out_start == self.out_end:
                self.out_start = self.out_end = 0
                # Frames are small: many go out in one write.
                while self.out_end < READ_SIZE:
                    size = nghttp2_session_mem_send(self.session, &data)
                    if self.failure is not None:
                        raise self.failure
                    if size < 0:
                        raise SessionError(nghttp2_strerror(<int>size).decode())
                    if size == 0:
                        break
                    self._put(data, size)
                if self.out_end == 0:
                    if self.complaint is not None:
                        raise SessionError(self.complaint)
                    return True
            size = c_send(
                self.fd,
                self.outbox + self.out_start,
                self.out_end - self.out_start,
                MSG_DONTWAIT | MSG_NOSIGNAL,
            )
            if size < 0:
                if errno == EINTR:
                    continue
                if errno == EAGAIN:
                    return False
                raise SessionError(strerror(errno).decode("utf-8", "replace"))
            self.sent += size
            self.out_start += size

    @property
    def wants_write(self):
        """Whether flush() has something to do."""
        return self.session != NULL and (
            self.out_end > self.out_start or nghttp2_session_want_write(self.session) != 0
        )

    cdef int _check_alive(self) except -1:
        if self.failure is not None:
            raise self.failure
        if self.session == NULL:
            raise SessionError("the session is over")
        return 0

    cdef int _put(self, const uint8_t* data, Py_ssize_t size) except -1:
        cdef void* grown
        cdef Py_ssize_t wanted
        if self.out_end + size > self.out_capacity:
            wanted = max(2 * self.out_capacity, self.out_end + size, 16384)
            grown = PyMem_Realloc(self.outbox, wanted)
            if grown == NULL:
                raise MemoryError()
            self.outbox = <uint8_t*>grown
            self.out_capacity = wanted
        memcpy(self.outbox + self.out_end, data, size)
        self.out_end += size
        return 0

    cdef int _credit(self, int32_t stream_id, Py_ssize_t size) except -1:
        if self.session != NULL:
            nghttp2_session_consume_stream(self.session, stream_id, size)
        return 0

    cdef int _reset(self, Stream stream, uint32_t code) except -1:
        if self.session != NULL:
            nghttp2_submit_rst_stream(self.session, 0, stream.id, code)
        return 0

    cdef int _refuse_unsent(self) except -1:
        """Ends the calls that wait for room on a connection that takes no more."""
        cdef Stream stream
        for stream in self.streams.values():
            if not stream.begun and not stream.closed:
                stream.closed = True
                stream.reset_code = REFUSED_STREAM
                stream.forget_body()
                self._reset(stream, REFUSED_STREAM)
                self._report(stream)
        return 0

    cdef void _report(self, Stream stream):
        if not stream.dirty:
            stream.dirty = True
            self.news.append(stream)


cdef ssize_t _read_body(
    nghttp2_session* session, int32_t stream_id, uint8_t* buffer, size_t size, uint32_t* flags,
    nghttp2_data_source* source, void* user_data
) noexcept:
    cdef Stream stream = <Stream>source.ptr
    cdef Py_ssize_t left = PyBytes_GET_SIZE(stream.body) - stream.sent
    cdef Py_ssize_t count = min(left, <Py_ssize_t>size)
    memcpy(buffer, PyBytes_AS_STRING(stream.body) + stream.sent, count)
    stream.sent += count
    if count == left:
        flags[0] |= DATA_FLAG_EOF
        stream.sent_all = True
        stream.forget_body()
    return count


cdef int _on_header(
    nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
    const uint8_t* value, size_t value_size, uint8_t flags, void* user_data
) noexcept:
    cdef Session owner = <Session>user_data
    cdef void* found = nghttp2_session_get_stream_user_data(session, frame.hd.stream_id)
    cdef Stream stream
    if found == NULL:
        return 0
    stream = <Stream>found
    try:
        stream.touched = True
        stream.header_count += 1
        if stream.header_count > MOST_HEADERS:
            stream.broken = "more headers than a gRPC server sends"
            if not stream.closed:
                owner._report(stream)
            return ERR_TEMPORAL_CALLBACK_FAILURE
        key = name[:name_size]
        if key in KEPT:
            stream.headers[key.decode("latin-1")] = value[:value_size]
        return 0
    except BaseException as exc:
        owner.failure = exc
        return ERR_CALLBACK_FAILURE


cdef int _on_data(
    nghttp2_session* session, uint8_t flags, int32_t stream_id, const uint8_t* data, size_t size,
    void* user_data
) noexcept:
    cdef Session owner = <Session>user_data
    cdef void* found = nghttp2_session_get_stream_user_data(session, stream_id)
    cdef Stream stream
    nghttp2_session_consume_connection(session, size)
    if found == NULL:
        return 0
    stream = <Stream>found
    if stream.broken is not None or stream.closed:
        return 0
    try:
        stream._receive(data, <Py_ssize_t>size)
        owner._report(stream)
        return 0
    except BaseException as exc:
        owner.failure = exc
        return ERR_CALLBACK_FAILURE


cdef int _on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* user_data) noexcept:
    cdef Session owner = <Session>user_data
    cdef void* found
    cdef Stream stream
    try:
        if frame.hd.type == FRAME_DATA or frame.hd.type == FRAME_HEADERS:
            if frame.hd.flags & FLAG_END_STREAM:
                found = nghttp2_session_get_stream_user_data(session, frame.hd.stream_id)
                if found != NULL:
                    stream = <Stream>found
                    if not stream.closed:
                        stream.closed = True
                        owner._report(stream)
                        if not stream.sent_all:
                            # The answer has not waited for all of the request, and the peer
                            # may never read the rest.
                            owner._reset(stream, NO_ERROR)
        elif frame.hd.type == FRAME_GOAWAY:
            owner.goaway = (
                frame.goaway.last_stream_id,
                frame.goaway.error_code,
                frame.goaway.opaque_data[: frame.goaway.opaque_data_len]
                if frame.goaway.opaque_data_len
                else b"",
            )
            owner._refuse_unsent()
        elif frame.hd.type == FRAME_PING and frame.hd.flags & FLAG_ACK:
            owner.pongs += 1
        elif frame.hd.type == FRAME_SETTINGS:
            owner.settled = True
        return 0
    except BaseException as exc:
        owner.failure = exc
        return ERR_CALLBACK_FAILURE


cdef int _on_close(
    nghttp2_session* session, int32_t stream_id, uint32_t error_code, void* user_data
) noexcept:
    cdef Session owner = <Session>user_data
    cdef Stream stream
    try:
        stream = owner.streams.pop(stream_id, None)
        if stream is not None:
            if not stream.closed:
                stream.reset_code = error_code
                stream.closed = True
                owner._report(stream)
            stream.session = None
        return 0
    except BaseException as exc:
        owner.failure = exc
        return ERR_CALLBACK_FAILURE


cdef int _on_frame_sent(
    nghttp2_session* session, const nghttp2_frame* frame, void* user_data
) noexcept:
    cdef Session owner = <Session>user_data
    cdef Py_ssize_t size
    cdef void* found
    try:
        if frame.hd.type == FRAME_HEADERS:
            found = nghttp2_session_get_stream_user_data(session, frame.hd.stream_id)
            if found != NULL:
                (<Stream>found).begun = True
        elif frame.hd.type == FRAME_RST_STREAM:
            # What it was about has cost only a stream.
            owner.remark = None
        if frame.hd.type == FRAME_GOAWAY and frame.goaway.error_code != NO_ERROR:
            size = <Py_ssize_t>frame.goaway.opaque_data_len
            reason = (<const char*>frame.goaway.opaque_data)[:size] if size else b""
            fault = error_name(frame.goaway.error_code)
            said = owner.remark or reason.decode("utf-8", "replace")
            owner.complaint = f"the peer broke HTTP/2: {fault}: {said}" if said else (
                f"the peer broke HTTP/2: {fault}"
            )
        return 0
    except BaseException as exc:
        owner.failure = exc
        return ERR_CALLBACK_FAILURE


cdef int _on_error(
    nghttp2_session* session, int code, const char* text, size_t size, void* user_data
) noexcept:
    cdef Session owner = <Session>user_data
    try:
        owner.remark = text[:size].decode("utf-8", "replace")
        return 0
    except BaseException as exc:
        owner.failure = exc
        return ERR_CALLBACK_FAILURE
