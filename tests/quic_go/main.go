// An HTTP/3 client and server of quic-go, for the tests of weir serve, weir fetch and weir load.
//
//	quicgo client ADDRESS FOLDER   asks a weir serve of FOLDER; prints a line for each part
//	quicgo serve CERT KEY          serves a page; prints its port
//	quicgo get, quicgo files       an end of the public interoperability cases: get.go, files.go
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// How much of the large file has arrived when the client changes its address.
const movesAt = 1 << 20

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "client":
		err = client(os.Args[2], os.Args[3])
	case len(os.Args) == 4 && os.Args[1] == "serve":
		err = serve(os.Args[2], os.Args[3])
	case len(os.Args) > 2 && os.Args[1] == "get":
		err = get(os.Args[2:])
	case len(os.Args) > 2 && os.Args[1] == "files":
		err = files(os.Args[2:])
	default:
		err = errors.New("usage: quicgo client ADDRESS FOLDER | quicgo serve CERT KEY | quicgo get | quicgo files")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A socket that counts what it receives.
type counting struct {
	net.PacketConn
	received atomic.Int64
}

func (c *counting) ReadFrom(into []byte) (int, net.Addr, error) {
	n, from, err := c.PacketConn.ReadFrom(into)
	if err == nil {
		c.received.Add(1)
	}
	return n, from, err
}

func socket() (*counting, *quic.Transport, error) {
	udp, err := net.ListenPacket("udp4", "0.0.0.0:0")
	if err != nil {
		return nil, nil, err
	}
	counts := &counting{PacketConn: udp}
	return counts, &quic.Transport{Conn: counts}, nil
}

func client(address, folder string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return err
	}
	_, before, err := socket()
	if err != nil {
		return err
	}
	var connections atomic.Int64
	var connection *quic.Conn
	transport := &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		Dial: func(ctx context.Context, _ string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
			connections.Add(1)
			made, err := before.Dial(ctx, to, tlsConfig, config)
			connection = made
			return made, err
		},
	}
	defer transport.Close()
	ask := &asker{&http.Client{Transport: transport}, "https://" + address + "/", folder, http.MethodGet}

	files, err := filepath.Glob(filepath.Join(folder, "small-*.bin"))
	if err != nil {
		return err
	}
	// One first, so that all others share its connection.
	if _, err := ask.get(ctx, filepath.Base(files[0]), nil); err != nil {
		return err
	}
	var waits sync.WaitGroup
	failures := make(chan error, len(files))
	var sum atomic.Int64
	for _, file := range files {
		waits.Go(func() {
			got, err := ask.get(ctx, filepath.Base(file), nil)
			sum.Add(int64(got))
			if err != nil {
				failures <- err
			}
		})
	}
	waits.Wait()
	close(failures)
	if err := <-failures; err != nil {
		return err
	}
	fmt.Printf("%d at once: %d bytes\n", len(files), sum.Load())

	after, path, err := socket()
	if err != nil {
		return err
	}
	move := func() error { return moves(ctx, connection, after, path) }
	got, err := ask.get(ctx, "large.bin", move)
	if err != nil {
		return err
	}
	fmt.Printf("large: %d bytes\n", got)
	fmt.Printf("datagrams at the new address: %d\n", after.received.Load())
	if _, err := ask.get(ctx, filepath.Base(files[0]), nil); err != nil {
		return err
	}
	fmt.Printf("connections: %d\n", connections.Load())
	return nil
}

type asker struct {
	http   *http.Client
	url    string
	folder string
	method string
}

// Fetches a file and compares it with the one in the folder. move, if any, is called on the way. Returns the length.
func (a *asker) get(ctx context.Context, name string, move func() error) (int, error) {
	request, err := http.NewRequestWithContext(ctx, a.method, a.url+name, nil)
	if err != nil {
		return 0, err
	}
	response, err := a.http.Do(request)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Proto != "HTTP/3.0" {
		return 0, fmt.Errorf("%s: %s over %s", name, response.Status, response.Proto)
	}
	var body bytes.Buffer
	if move != nil {
		if _, err := io.CopyN(&body, response.Body, movesAt); err != nil {
			return body.Len(), fmt.Errorf("%s: %w", name, err)
		}
		if err := move(); err != nil {
			return body.Len(), err
		}
	}
	if _, err := io.Copy(&body, response.Body); err != nil {
		return body.Len(), fmt.Errorf("%s, after %d bytes: %w", name, body.Len(), err)
	}
	wanted, err := os.ReadFile(filepath.Join(a.folder, name))
	if err != nil {
		return body.Len(), err
	}
	if !bytes.Equal(body.Bytes(), wanted) {
		return body.Len(), fmt.Errorf("%s: other bytes than in the file", name)
	}
	return body.Len(), nil
}

func serve(cert, key string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	image := strings.Repeat("x", 40000)
	server := &http3.Server{
		TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}}),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				w.Header().Set("Content-Type", "image/gif")
				w.Header().Set("Trailer", "X-End")
				io.WriteString(w, image)
				w.Header().Set("X-End", "here")
				return
			}
			w.Header().Set("Link", "<a.gif>; rel=preload; as=image")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<img src=a.gif><img src=b.gif>")
		}),
	}
	fmt.Println(udp.LocalAddr().(*net.UDPAddr).Port)
	return server.Serve(udp)
}
