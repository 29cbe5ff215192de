package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// Serves a folder for the public interoperability cases until standard input ends, and prints what it saw as JSON.
func files(arguments []string) error {
	var at, versions string
	var retry, early, once bool
	flags := flag.NewFlagSet("files", flag.ContinueOnError)
	flags.StringVar(&at, "at", "127.0.0.1:0", "")
	flags.StringVar(&versions, "versions", "", "")
	flags.BoolVar(&retry, "retry", false, "")
	flags.BoolVar(&early, "early", false, "")
	flags.BoolVar(&once, "once", false, "")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 3 {
		return errors.New("usage: quicgo files [flags] CERT KEY FOLDER")
	}
	pair, err := tls.LoadX509KeyPair(flags.Arg(0), flags.Arg(1))
	if err != nil {
		return err
	}
	spoken, err := parsed(versions)
	if err != nil {
		return err
	}
	address, err := net.ResolveUDPAddr("udp", at)
	if err != nil {
		return err
	}
	udp, err := net.ListenUDP("udp", address)
	if err != nil {
		return err
	}
	var watch watch
	transport := &quic.Transport{Conn: udp, VerifySourceAddress: func(net.Addr) bool { return retry }}
	listener, err := transport.ListenEarly(
		http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}}),
		&quic.Config{
			Versions:             spoken,
			Allow0RTT:            early,
			HandshakeIdleTimeout: patience,
			MaxIdleTimeout:       patience,
			Tracer:               watch.trace,
		},
	)
	if err != nil {
		return err
	}
	var handler http.Handler = http.FileServer(http.Dir(flags.Arg(2)))
	if once {
		handler = answersOnce(handler)
	}
	server := &http3.Server{
		Handler: handler,
		ConnContext: func(ctx context.Context, connection *quic.Conn) context.Context {
			return context.WithValue(ctx, key{}, &answers{connection: connection})
		},
	}
	fmt.Println(udp.LocalAddr().(*net.UDPAddr).Port)
	go server.ServeListener(listener)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(watch.read())
}

type key struct{}

// A connection, and how many requests came over it.
type answers struct {
	connection *quic.Conn
	requests   atomic.Int64
}

// Ends each connection with its second request, which the client then sends again over another one.
func answersOnce(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers, ok := r.Context().Value(key{}).(*answers)
		if ok && answers.requests.Add(1) > 1 {
			answers.connection.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
			return
		}
		handler.ServeHTTP(w, r)
	})
}
