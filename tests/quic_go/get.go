package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// What a client of the public interoperability cases is told.
type getting struct {
	// Compared with what arrives.
	folder string
	// In order of preference; v1 if empty.
	versions []quic.Version
	// Each file over a connection of its own, all at once.
	apart bool
	// The first file over one connection, the others over a second one.
	resume bool
	// Requests of the second connection may leave as early data.
	early bool
	// The client changes its address in the first file.
	move bool
}

// What it found, as JSON.
type found struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Datagrams that arrived at the second address.
	Moved int64 `json:"moved"`
	// From the first packet to the last byte.
	Seconds float64 `json:"seconds"`
	seen
}

func get(arguments []string) error {
	var is getting
	var versions string
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	flags.StringVar(&is.folder, "folder", "", "")
	flags.StringVar(&versions, "versions", "", "")
	flags.BoolVar(&is.apart, "apart", false, "")
	flags.BoolVar(&is.resume, "resume", false, "")
	flags.BoolVar(&is.early, "early", false, "")
	flags.BoolVar(&is.move, "move", false, "")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errors.New("usage: quicgo get [flags] ADDRESS NAME...")
	}
	var err error
	if is.versions, err = parsed(versions); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := is.files(ctx, flags.Arg(0), flags.Args()[1:])
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

func parsed(list string) ([]quic.Version, error) {
	var versions []quic.Version
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		switch word {
		case "1":
			versions = append(versions, quic.Version1)
		case "2":
			versions = append(versions, quic.Version2)
		default:
			return nil, fmt.Errorf("%q is no version of QUIC", word)
		}
	}
	return versions, nil
}

// A cache of sessions that tells of the first.
type sessions struct {
	tls.ClientSessionCache
	first chan struct{}
	once  sync.Once
}

func (s *sessions) Put(key string, session *tls.ClientSessionState) {
	s.ClientSessionCache.Put(key, session)
	if session != nil {
		s.once.Do(func() { close(s.first) })
	}
}

// Everything that the connections of a client share.
type client3 struct {
	getting
	address  string
	watch    watch
	sessions *sessions
	bytes    atomic.Int64
	moved    atomic.Int64
}

func (is getting) files(ctx context.Context, address string, names []string) (*found, error) {
	cache := &sessions{ClientSessionCache: tls.NewLRUClientSessionCache(8), first: make(chan struct{})}
	began := time.Now()
	c := &client3{getting: is, address: address, sessions: cache}
	var rounds [][]string
	switch {
	case is.apart:
		for _, name := range names {
			rounds = append(rounds, []string{name})
		}
	case is.resume:
		rounds = [][]string{names[:1], names[1:]}
	default:
		rounds = [][]string{names}
	}
	if is.apart {
		if err := all(len(rounds), func(at int) error { return c.connection(ctx, rounds[at], false) }); err != nil {
			return nil, err
		}
	} else {
		for at, names := range rounds {
			if at > 0 {
				select {
				case <-cache.first:
				case <-ctx.Done():
					return nil, errors.New("no session ticket came")
				}
			}
			if err := c.connection(ctx, names, at > 0 && is.early); err != nil {
				return nil, err
			}
		}
	}
	took := time.Since(began).Seconds()
	return &found{len(names), c.bytes.Load(), c.moved.Load(), took, c.watch.read()}, nil
}

// Runs n at once; the first error, if any.
func all(n int, run func(at int) error) error {
	errs := make([]error, n)
	var waits sync.WaitGroup
	for at := range n {
		waits.Go(func() { errs[at] = run(at) })
	}
	waits.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Fetches these files over one connection, all at once.
func (c *client3) connection(ctx context.Context, names []string, early bool) error {
	to, err := net.ResolveUDPAddr("udp", c.address)
	if err != nil {
		return err
	}
	before, err := c.socket()
	if err != nil {
		return err
	}
	defer before.Close()
	var connection *quic.Conn
	transport := &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", ClientSessionCache: c.sessions},
		QUICConfig: &quic.Config{
			HandshakeIdleTimeout: patience,
			MaxIdleTimeout:       patience,
			Tracer:               c.watch.trace,
		},
		Dial: func(ctx context.Context, _ string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
			// HTTP/3 of quic-go wants a single version.
			config.Versions = c.versions
			dial := before.Dial
			if early {
				dial = before.DialEarly
			}
			made, err := dial(ctx, to, tlsConfig, config)
			connection = made
			return made, err
		},
	}
	defer transport.Close()
	method := http.MethodGet
	if early {
		method = http3.MethodGet0RTT
	}
	ask := &asker{&http.Client{Transport: transport}, "https://" + c.address + "/", c.folder, method}
	var move func() error
	if c.move {
		after, path, err := socket()
		if err != nil {
			return err
		}
		defer path.Close()
		move = func() error { return moves(ctx, connection, after, path) }
		defer func() { c.moved.Add(after.received.Load()) }()
	}
	// As many at once as there may be streams: a request whose stream has to wait keeps its time.
	err = all(len(names), func(at int) error {
		move := move
		if at > 0 {
			move = nil
		}
		got, err := ask.get(ctx, names[at], move)
		c.bytes.Add(int64(got))
		return err
	})
	if err != nil {
		return err
	}
	c.watch.ended(connection.ConnectionState())
	return nil
}

// The socket of a connection: a plain one, on which quic-go uses ECN. It cannot keep to it when it changes to one that counts.
func (c *client3) socket() (*quic.Transport, error) {
	if c.move {
		_, transport, err := socket()
		return transport, err
	}
	udp, err := net.ListenUDP("udp", nil)
	return &quic.Transport{Conn: udp}, err
}

// Validates the path of the new socket and changes to it.
func moves(ctx context.Context, connection *quic.Conn, after *counting, path *quic.Transport) error {
	there, err := connection.AddPath(path)
	if err != nil {
		return fmt.Errorf("a path: %w", err)
	}
	if err := there.Probe(ctx); err != nil {
		return fmt.Errorf("its validation: %w", err)
	}
	after.received.Store(0)
	return there.Switch()
}

// A name of a version, as "v1".
func version(of quic.Version) string {
	switch of {
	case quic.Version1:
		return "v1"
	case quic.Version2:
		return "v2"
	}
	return "0x" + strconv.FormatUint(uint64(of), 16)
}

// Everything is done by then, or has failed.
const patience = 100 * time.Second
