# cython: boundscheck=False, wraparound=False, cdivision=True
"""Writes an HTTP/1.1 body to a non-blocking socket, each piece framed and in one call."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdio cimport snprintf
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cdef extern from "sys/types.h":
    ctypedef long ssize_t

cdef extern from "sys/uio.h" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "sys/socket.h" nogil:
    struct msghdr:
        void* msg_name
        unsigned int msg_namelen
        iovec* msg_iov
        size_t msg_iovlen
        void* msg_control
        size_t msg_controllen
        int msg_flags
    ssize_t sendmsg(int, const msghdr*, int)
    ssize_t send(int, const void*, size_t, int)
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL

cdef extern from "string.h" nogil:
    char* strerror(int)

cdef bytes LINE_END = b"\r\n"
cdef bytes LAST_CHUNK = b"\r\n0\r\n\r\n"
cdef bytes EMPTY_END = b"0\r\n\r\n"


cdef double monotonic() noexcept:
    """What time.monotonic() returns."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <double>now.tv_sec + 1e-9 * <double>now.tv_nsec


cdef class BodyWriter:
    """The body of one response.

    Args:
        fd: The client's socket.
        chunked: Whether the body has chunked framing.

    Attributes:
        written: Bytes of the body so far, framing not counted.
        written_at: When something was last written, by time.monotonic().
        kept: What the socket did not take, framed; usually nothing.
    """

    def __cinit__(self, int fd, bint chunked):
        self.fd = fd
        self.chunked = chunked
        self.kept = b""

    cpdef bint write(self, bytes body, bint last=False, bytes head=b"") except -1:
        """Sends a piece without waiting.

        Args:
            body: The piece; may be empty.
            last: Whether it ends the body.
            head: What goes before it, such as the response's headers.

        Returns:
            Whether the socket took all of it; the rest is kept.

        Raises:
            OSError: The client is gone.
        """
        cdef char size[24]
        cdef iovec pieces[4]
        cdef msghdr message
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t total = 0
        cdef Py_ssize_t i
        cdef ssize_t sent
        cdef bytes end = b""
        cdef list rest
        if body is None or head is None:
            raise TypeError("body or head is None")
        self.written += PyBytes_GET_SIZE(body)
        self.written_at = monotonic()
        if PyBytes_GET_SIZE(head):
            pieces[count].iov_base = PyBytes_AS_STRING(head)
            pieces[count].iov_len = PyBytes_GET_SIZE(head)
            count += 1
        if self.chunked and PyBytes_GET_SIZE(body):
            pieces[count].iov_base = size
            pieces[count].iov_len = snprintf(size, sizeof(size), "%zx\r\n", PyBytes_GET_SIZE(body))
            count += 1
            end = LAST_CHUNK if last else LINE_END
        elif self.chunked and last:
            end = EMPTY_END
        if PyBytes_GET_SIZE(body):
            pieces[count].iov_base = PyBytes_AS_STRING(body)
            pieces[count].iov_len = PyBytes_GET_SIZE(body)
            count += 1
        if PyBytes_GET_SIZE(end):
            pieces[count].iov_base = PyBytes_AS_STRING(end)
            pieces[count].iov_len = PyBytes_GET_SIZE(end)
            count += 1
        for i in range(count):
            total += pieces[i].iov_len
        sent = 0
        if PyBytes_GET_SIZE(self.kept) == 0:
            if total == 0:
                return True
            message.msg_name = NULL
            message.msg_namelen = 0
            message.msg_iov = pieces
            message.msg_iovlen = count
            message.msg_control = NULL
            message.msg_controllen = 0
            message.msg_flags = 0
            while True:
                sent = sendmsg(self.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
                if sent == total:
                    return True
                if sent >= 0:
                    break
                if errno == EAGAIN:
                    sent = 0
                    break
                if errno != EINTR:
                    raise OSError(errno, strerror(errno).decode("utf-8", "replace"))
        rest = []
        for i in range(count):
            rest.append((<char*>pieces[i].iov_base)[: pieces[i].iov_len])
        self.kept += b"".join(rest)[sent:]
        return False

    cpdef bint flush(self) except -1:
        """Sends what was kept, without waiting; returns whether all of it was taken.

        Raises:
            OSError: The client is gone.
        """
        cdef ssize_t sent
        while PyBytes_GET_SIZE(self.kept):
            sent = send(
                self.fd, PyBytes_AS_STRING(self.kept), PyBytes_GET_SIZE(self.kept),
                MSG_DONTWAIT | MSG_NOSIGNAL,
            )
            if sent >= 0:
                self.kept = self.kept[sent:]
                self.written_at = monotonic()
            elif errno == EAGAIN:
                return False
            elif errno != EINTR:
                raise OSError(errno, strerror(errno).decode("utf-8", "replace"))
        return True

    def take_kept(self):
        """Returns what was kept and forgets it: it has been sent.

        Until then it has to stay, or somebody else would write into the middle of it.
        """
        kept = self.kept
        self.kept = b""
        return kept
