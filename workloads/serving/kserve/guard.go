package kserve

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// guard refuses requests that a web page of another site may have made a browser send. These are requests for a host
// name that is not the service's (DNS rebinding: an attacker's name can point to this machine), and requests from
// another origin. status is 0 for an allowed request.
func (s *Server) guard(r *http.Request) (status int, err error) {
	if host := hostOf(r.Host); !s.isOwnName(host) {
		return http.StatusMisdirectedRequest, gpuprof.Errorf(gpuprof.ErrInput, "serving a request for host %.80q: the service has another name", host).
			WithFix("send it to the machine's IP address or name, or start with --set arrivals=http:NAME:PORT")
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return http.StatusForbidden, gpuprof.Errorf(gpuprof.ErrInput, "serving a request from the page %.80q: pages of other sites are not served", origin).
				WithFix("send it from a program, or through a server of the page")
		}
	}
	return 0, nil
}

// hostOf returns the host of a Host header, without the port and the trailing dot of a full name.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		header = host
	}
	return strings.TrimSuffix(strings.Trim(header, "[]"), ".")
}

// isOwnName reports whether host may address the service: an IP address, which no site can redirect, localhost, one
// of the server's names, or an empty host, which browsers never send.
func (s *Server) isOwnName(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return true
	}
	return slices.ContainsFunc(append([]string{"localhost"}, s.Hosts...), func(own string) bool { return strings.EqualFold(own, host) })
}
