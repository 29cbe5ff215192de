package main

import (
	"context"
	"crypto/tls"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// What is seen of all connections of an end, as JSON.
type seen struct {
	// Connections that were begun.
	Connections int `json:"connections"`
	// Of each connection that came to its end: version, cipher suite, whether it was resumed and used early data.
	Versions []string `json:"versions"`
	Suites   []string `json:"suites"`
	Resumed  []bool   `json:"resumed"`
	Early    []bool   `json:"early"`
	// Key updates that this end began, and that it followed.
	Updates  int `json:"updates"`
	Followed int `json:"followed"`
	// Connections on which the peer has confirmed the ECN marks.
	Marked int `json:"marked"`
	// Packets that could not be read, by reason.
	Dropped map[string]int `json:"dropped"`
	// Version negotiation and Retry packets that came.
	Negotiations int `json:"negotiations"`
	Retries      int `json:"retries"`
}

type watch struct {
	mutex sync.Mutex
	seen  seen
}

func (w *watch) read() seen {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.seen
}

func (w *watch) trace(context.Context, bool, quic.ConnectionID) qlogwriter.Trace {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.seen.Connections++
	return w
}

func (w *watch) AddProducer() qlogwriter.Recorder { return w }

func (w *watch) SupportsSchemas(string) bool { return true }

func (w *watch) Close() error { return nil }

func (w *watch) RecordEvent(event qlogwriter.Event) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch event := event.(type) {
	case qlog.KeyUpdated:
		// Each update changes the keys of both directions.
		if event.KeyType == qlog.KeyTypeClient1RTT {
			switch event.Trigger {
			case qlog.KeyUpdateLocal:
				w.seen.Updates++
			case qlog.KeyUpdateRemote:
				w.seen.Followed++
			}
		}
	case qlog.ECNStateUpdated:
		if event.State == qlog.ECNStateCapable {
			w.seen.Marked++
		}
	case qlog.PacketDropped:
		if w.seen.Dropped == nil {
			w.seen.Dropped = make(map[string]int)
		}
		w.seen.Dropped[string(event.Trigger)]++
	case qlog.VersionNegotiationReceived:
		w.seen.Negotiations++
	case qlog.PacketReceived:
		if event.Header.PacketType == qlog.PacketTypeRetry {
			w.seen.Retries++
		}
	}
}

// Notes what a connection agreed on.
func (w *watch) ended(state quic.ConnectionState) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.seen.Versions = append(w.seen.Versions, version(state.Version))
	w.seen.Suites = append(w.seen.Suites, tls.CipherSuiteName(state.TLS.CipherSuite))
	w.seen.Resumed = append(w.seen.Resumed, state.TLS.DidResume)
	w.seen.Early = append(w.seen.Early, state.Used0RTT)
}
