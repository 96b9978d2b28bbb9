import type {Finding} from '../model/finding.ts';
import type {Problem} from '../model/snapshot.ts';
import {toFinding} from './to-finding.ts';

/** An object that could not be read, or an unusable file of a node, is a finding too. */
export function problemFinding({message, node, remedy, isMinor}: Problem): Finding {
  return toFinding(notRead, {
    message,
    ...(node === undefined ? {} : {node}),
    ...(remedy === undefined ? {} : {remedy}),
    ...(isMinor ? {severity: 'info'} : {}),
  });
}

const notRead = {
  code: 'ST901',
  name: 'node-not-read',
  severity: 'warning',
  remedy: 'Write the file again. The readable part of it was checked.',
} as const;
