# What h2.pyx uses of libnghttp2. https://nghttp2.org/documentation/

from libc.stdint cimport int32_t, uint8_t, uint32_t


cdef extern from "sys/types.h":
    ctypedef long ssize_t

cdef extern from "nghttp2/nghttp2.h":
    ctypedef struct nghttp2_session
    ctypedef struct nghttp2_session_callbacks
    ctypedef struct nghttp2_option
    ctypedef struct nghttp2_nv:
        uint8_t* name
        uint8_t* value
        size_t namelen
        size_t valuelen
        uint8_t flags
    ctypedef union nghttp2_data_source:
        int fd
        void* ptr
    ctypedef ssize_t (*nghttp2_data_source_read_callback)(
        nghttp2_session*, int32_t, uint8_t*, size_t, uint32_t*, nghttp2_data_source*, void*
    ) noexcept
    ctypedef struct nghttp2_data_provider:
        nghttp2_data_source source
        nghttp2_data_source_read_callback read_callback
    ctypedef struct nghttp2_settings_entry:
        int32_t settings_id
        uint32_t value
    ctypedef struct nghttp2_frame_hd:
        size_t length
        int32_t stream_id
        uint8_t type
        uint8_t flags
    ctypedef struct nghttp2_goaway:
        nghttp2_frame_hd hd
        int32_t last_stream_id
        uint32_t error_code
        uint8_t* opaque_data
        size_t opaque_data_len
    ctypedef union nghttp2_frame:
        nghttp2_frame_hd hd
        nghttp2_goaway goaway
    ctypedef int (*on_header_t)(
        nghttp2_session*, const nghttp2_frame*, const uint8_t*, size_t, const uint8_t*, size_t,
        uint8_t, void*
    ) noexcept
    ctypedef int (*on_data_t)(
        nghttp2_session*, uint8_t, int32_t, const uint8_t*, size_t, void*
    ) noexcept
    ctypedef int (*on_frame_t)(nghttp2_session*, const nghttp2_frame*, void*) noexcept
    ctypedef int (*on_close_t)(nghttp2_session*, int32_t, uint32_t, void*) noexcept
    ctypedef int (*on_error_t)(nghttp2_session*, int, const char*, size_t, void*) noexcept

    int nghttp2_session_callbacks_new(nghttp2_session_callbacks**)
    void nghttp2_session_callbacks_del(nghttp2_session_callbacks*)
    void nghttp2_session_callbacks_set_on_header_callback(nghttp2_session_callbacks*, on_header_t)
    void nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        nghttp2_session_callbacks*, on_data_t)
    void nghttp2_session_callbacks_set_on_frame_recv_callback(
        nghttp2_session_callbacks*, on_frame_t)
    void nghttp2_session_callbacks_set_on_stream_close_callback(
        nghttp2_session_callbacks*, on_close_t)
    void nghttp2_session_callbacks_set_on_frame_send_callback(
        nghttp2_session_callbacks*, on_frame_t)
    void nghttp2_session_callbacks_set_error_callback2(nghttp2_session_callbacks*, on_error_t)
    int nghttp2_option_new(nghttp2_option**)
    void nghttp2_option_del(nghttp2_option*)
    void nghttp2_option_set_no_auto_window_update(nghttp2_option*, int)
    int nghttp2_session_client_new2(
        nghttp2_session**, nghttp2_session_callbacks*, void*, nghttp2_option*)
    void nghttp2_session_del(nghttp2_session*)
    ssize_t nghttp2_session_mem_recv(nghttp2_session*, const uint8_t*, size_t)
    ssize_t nghttp2_session_mem_send(nghttp2_session*, const uint8_t**)
    int nghttp2_session_want_read(nghttp2_session*)
    int nghttp2_session_want_write(nghttp2_session*)
    int nghttp2_submit_settings(nghttp2_session*, uint8_t, nghttp2_settings_entry*, size_t)
    int32_t nghttp2_submit_request(
        nghttp2_session*, void*, nghttp2_nv*, size_t, nghttp2_data_provider*, void*)
    int nghttp2_submit_rst_stream(nghttp2_session*, uint8_t, int32_t, uint32_t)
    int nghttp2_submit_ping(nghttp2_session*, uint8_t, const uint8_t*)
    int nghttp2_session_terminate_session(nghttp2_session*, uint32_t)
    int nghttp2_session_set_local_window_size(nghttp2_session*, uint8_t, int32_t, int32_t)
    int nghttp2_session_consume_connection(nghttp2_session*, size_t)
    int nghttp2_session_consume_stream(nghttp2_session*, int32_t, size_t)
    void* nghttp2_session_get_stream_user_data(nghttp2_session*, int32_t)
    uint32_t nghttp2_session_get_remote_settings(nghttp2_session*, int)
    const char* nghttp2_strerror(int)
    const char* nghttp2_http2_strerror(uint32_t)
