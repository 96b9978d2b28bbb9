#!/usr/bin/env bash
# Makes the certificates of the stand-in API server anew. They are good for a hundred years and for nothing but tests.
set -euo pipefail
cd "$(dirname "$0")"

authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "/CN=$2" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -keyout "$1.key" -out "$1.crt"
}

signed() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$3" -keyout "$1.key" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -days 36500 -extfile <(printf '%s\n' "${@:4}") -out "$1.crt"
  rm "$1.csr"
}

authority ca 'svc-trace test authority'
authority other-ca 'another test authority'
signed server ca /CN=kube-apiserver 'subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:::1' extendedKeyUsage=serverAuth
signed elsewhere ca /CN=kube-apiserver 'subjectAltName=DNS:elsewhere.example' extendedKeyUsage=serverAuth
signed client ca '/O=testers/CN=carla' extendedKeyUsage=clientAuth
signed untrusted-client other-ca '/O=testers/CN=untrusted' extendedKeyUsage=clientAuth
rm -f ca.key other-ca.key
